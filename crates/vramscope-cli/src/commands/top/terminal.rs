//! The terminal in full-screen mode; it is restored however the command ends.

use std::io;
use std::sync::mpsc::Sender;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::draw::draw;
use super::model::Model;
use super::watch::News;

/// The full screen without a cursor.
pub(super) struct Terminal(DefaultTerminal);

impl Terminal {
    /// Opens the full screen; keys and signals that end the command go to `news`. A panic restores the terminal before its message is
    /// printed.
    pub(super) fn open(news: &Sender<News>) -> io::Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let terminal = ratatui::try_init().inspect_err(|_| drop(ratatui::try_restore()))?;
        let terminal = Self(terminal);
        let (keys, ends) = (news.clone(), news.clone());
        std::thread::Builder::new().spawn(move || {
            loop {
                // A failed read means that the terminal is closed.
                let news = event::read().map_or(News::End, News::Terminal);
                let ended = matches!(news, News::End);
                if keys.send(news).is_err() || ended {
                    return;
                }
            }
        })?;
        std::thread::Builder::new().spawn(move || {
            for _ in &mut signals {
                ends.send(News::End).ok();
            }
        })?;
        Ok(terminal)
    }

    pub(super) fn draw(&mut self, model: &Model) -> io::Result<()> {
        self.0.draw(|frame| draw(frame, model))?;
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A panic has already restored the terminal; restoring it again would overwrite the panic's message.
        if !std::thread::panicking() {
            ratatui::try_restore().ok();
        }
    }
}
