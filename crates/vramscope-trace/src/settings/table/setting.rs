//! [`TorchSetting`]: one row of the table of settings.

use super::TorchSettings;
use crate::release::TorchRelease;
use crate::settings::divisions::PowerOfTwoDivisions;

/// One setting of PyTorch's allocator: its keys, type and default. Its value is a field of [`TorchSettings`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TorchSetting {
    /// Description in one or two sentences.
    pub about: &'static str,
    /// Type of the value.
    pub kind: SettingKind,
    /// Key in `allocator_settings` of a snapshot, if snapshots have it.
    pub recorded: Option<&'static str>,
    /// The first release known to write that key.
    pub recorded_since: Option<TorchRelease>,
    /// Key in `PYTORCH_CUDA_ALLOC_CONF`, if it can be set there.
    pub conf: Option<&'static str>,
    /// The first release that supports that key; `None` for all examined releases.
    pub since: Option<TorchRelease>,
    /// Whether the setting affects the placement of blocks in device memory.
    pub decides: bool,
    /// Default value in a snapshot; only for settings that do not affect blocks.
    default: Option<SettingValue<'static>>,
    refuses: fn(&TorchSettings) -> Option<String>,
    get: fn(&TorchSettings) -> Option<SettingValue<'_>>,
    set: fn(&mut TorchSettings, SettingValue<'_>) -> bool,
}

impl TorchSetting {
    /// A setting that affects the placement of blocks in device memory.
    pub(super) const fn new() -> Self {
        Self {
            about: "",
            kind: SettingKind::Word,
            recorded: None,
            recorded_since: None,
            conf: None,
            since: None,
            decides: true,
            default: None,
            refuses: |_| None,
            get: |_| None,
            set: |_, _| false,
        }
    }

    /// A setting that does not affect blocks of device memory.
    pub(super) const fn elsewhere() -> Self {
        Self { decides: false, ..Self::new() }
    }

    pub(super) const fn recorded(self, key: &'static str) -> Self {
        Self { recorded: Some(key), ..self }
    }

    pub(super) const fn recorded_since(self, release: TorchRelease) -> Self {
        Self { recorded_since: Some(release), ..self }
    }

    pub(super) const fn conf(self, key: &'static str) -> Self {
        Self { conf: Some(key), ..self }
    }

    pub(super) const fn since(self, release: TorchRelease) -> Self {
        Self { since: Some(release), ..self }
    }

    pub(super) const fn default(self, value: SettingValue<'static>) -> Self {
        Self { default: Some(value), ..self }
    }

    pub(super) const fn refuses(self, why: fn(&TorchSettings) -> Option<String>) -> Self {
        Self { refuses: why, ..self }
    }

    /// Adds the parts of a row that the macro provides.
    pub(super) const fn of_field(
        self,
        about: &'static str,
        kind: SettingKind,
        get: fn(&TorchSettings) -> Option<SettingValue<'_>>,
        set: fn(&mut TorchSettings, SettingValue<'_>) -> bool,
    ) -> Self {
        Self { about, kind, get, set, ..self }
    }

    /// Returns the setting's value in `settings`, if set.
    pub fn get<'s>(&self, settings: &'s TorchSettings) -> Option<SettingValue<'s>> {
        (self.get)(settings)
    }

    /// Sets the value. Returns false if the value has the wrong type.
    pub fn set(&self, settings: &mut TorchSettings, value: SettingValue<'_>) -> bool {
        (self.set)(settings, value)
    }

    /// Why PyTorch would reject the value in combination with the other settings.
    pub(in crate::settings) fn refuses_value(&self, settings: &TorchSettings) -> Option<String> {
        (self.refuses)(settings)
    }

    /// Returns the setting's default value in a snapshot of a release.
    fn default_of(&self, release: Option<TorchRelease>) -> Option<SettingValue<'static>> {
        let is_written = match (self.recorded_since, release) {
            (Some(since), Some(release)) => release >= since,
            _ => true,
        };
        self.default.filter(|_| is_written)
    }
}

impl TorchSettings {
    /// Returns the setting with this key in a snapshot's dictionary.
    pub(crate) fn recorded_as(key: &str) -> Option<&'static TorchSetting> {
        Self::ALL.iter().find(|setting| setting.recorded == Some(key))
    }

    /// Returns the default values in a snapshot of a release, for the settings that do not affect blocks of device memory. Without a
    /// release, the defaults of all these settings.
    pub fn defaults_of(release: Option<TorchRelease>) -> Self {
        let mut settings = Self::default();
        for setting in Self::ALL {
            if let Some(value) = setting.default_of(release) {
                setting.set(&mut settings, value);
            }
        }
        settings
    }
}

/// Type of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// Bytes; whole MiB in `PYTORCH_CUDA_ALLOC_CONF`. -1 is no limit.
    Bytes,
    /// A number.
    Number,
    /// A number from 0 to 1.
    Fraction,
    /// True or false.
    Truth,
    /// Steps between powers of two.
    Divisions,
    /// Text.
    Word,
}

/// The value of a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingValue<'s> {
    /// [`SettingKind::Bytes`] and [`SettingKind::Number`].
    Int(i64),
    /// [`SettingKind::Fraction`].
    Float(f64),
    /// [`SettingKind::Truth`].
    Bool(bool),
    /// [`SettingKind::Divisions`].
    Divisions(PowerOfTwoDivisions),
    /// [`SettingKind::Word`].
    Word(&'s str),
}

/// The Rust type of each [`SettingKind`] in [`TorchSettings`].
pub(super) mod held {
    pub(in crate::settings::table) type Bytes = i64;
    pub(in crate::settings::table) type Number = i64;
    pub(in crate::settings::table) type Fraction = f64;
    pub(in crate::settings::table) type Truth = bool;
    pub(in crate::settings::table) type Divisions = super::PowerOfTwoDivisions;
    pub(in crate::settings::table) type Word = String;
}

/// A type that stores values of settings.
pub(super) trait Held: Sized {
    fn value(&self) -> SettingValue<'_>;
    fn of(value: SettingValue<'_>) -> Option<Self>;
}

macro_rules! held {
    ($($type:ty as $variant:ident),+) => {$(
        impl Held for $type {
            fn value(&self) -> SettingValue<'_> {
                SettingValue::$variant(self.clone())
            }

            fn of(value: SettingValue<'_>) -> Option<Self> {
                match value {
                    SettingValue::$variant(value) => Some(value),
                    _ => None,
                }
            }
        }
    )+};
}
held!(i64 as Int, f64 as Float, bool as Bool, PowerOfTwoDivisions as Divisions);

impl Held for String {
    fn value(&self) -> SettingValue<'_> {
        SettingValue::Word(self)
    }

    fn of(value: SettingValue<'_>) -> Option<Self> {
        match value {
            SettingValue::Word(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

/// Generates [`TorchSettings`], with one field per row, and the table of [`TorchSetting`]s.
macro_rules! settings {
    ($($(#[doc = $about:literal])+ $name:ident: $kind:ident = $row:expr;)+) => {
        /// Settings of a configuration text or a snapshot; `None` for settings that it lacks.
        #[derive(Debug, Default, Clone, PartialEq)]
        pub struct TorchSettings {
            $($(#[doc = $about])+ pub $name: Option<$crate::settings::table::setting::held::$kind>,)+
            /// Other keys and values of a configuration text, as written and in order.
            pub other: Vec<(String, String)>,
        }

        impl TorchSettings {
            /// All known settings. Settings of a snapshot's dictionary are in the order in which PyTorch writes them.
            pub const ALL: &[TorchSetting] = &[$($row.of_field(
                concat!($($about),+),
                $crate::settings::table::setting::SettingKind::$kind,
                |settings| settings.$name.as_ref().map($crate::settings::table::setting::Held::value),
                |settings, value| {
                    settings.$name = $crate::settings::table::setting::Held::of(value);
                    settings.$name.is_some()
                },
            )),+];

            /// Returns these settings, with unset ones taken from `others`.
            #[must_use]
            pub fn or(self, others: &Self) -> Self {
                Self {
                    $($name: self.$name.or_else(|| others.$name.clone()),)+
                    other: if self.other.is_empty() { others.other.clone() } else { self.other },
                }
            }
        }
    };
}
pub(super) use settings;
