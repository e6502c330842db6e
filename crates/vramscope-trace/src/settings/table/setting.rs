//! What a setting is.

use super::TorchSettings;
use crate::release::TorchRelease;
use crate::settings::divisions::PowerOfTwoDivisions;

/// One setting of PyTorch's allocator: what it is called, and where. Its value is a field of [`TorchSettings`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TorchSetting {
    /// What it does, in a sentence or two.
    pub about: &'static str,
    /// Its kind of value.
    pub kind: SettingKind,
    /// Its key in `allocator_settings` of a snapshot, where it is written there.
    pub recorded: Option<&'static str>,
    /// The first release that was seen to write that key.
    pub recorded_since: Option<TorchRelease>,
    /// Its key in `PYTORCH_CUDA_ALLOC_CONF`, where it can be set there.
    pub conf: Option<&'static str>,
    /// The first release that knows that key; `None` is every release that was looked at.
    pub since: Option<TorchRelease>,
    /// It decides where blocks of device memory lie.
    pub decides: bool,
    /// What a snapshot says where nobody has set it; only of what decides nothing.
    default: Option<SettingValue<'static>>,
    refuses: fn(&TorchSettings) -> Option<String>,
    get: fn(&TorchSettings) -> Option<SettingValue<'_>>,
    set: fn(&mut TorchSettings, SettingValue<'_>) -> bool,
}

impl TorchSetting {
    /// A setting that decides where blocks of device memory lie.
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

    /// A setting that decides nothing about blocks of device memory.
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

    /// What the macro knows of a row.
    pub(super) const fn of_field(
        self,
        about: &'static str,
        kind: SettingKind,
        get: fn(&TorchSettings) -> Option<SettingValue<'_>>,
        set: fn(&mut TorchSettings, SettingValue<'_>) -> bool,
    ) -> Self {
        Self { about, kind, get, set, ..self }
    }

    /// Its value, where there is one.
    pub fn get<'s>(&self, settings: &'s TorchSettings) -> Option<SettingValue<'s>> {
        (self.get)(settings)
    }

    /// Gives it a value. False where the value is not of its kind.
    pub fn set(&self, settings: &mut TorchSettings, value: SettingValue<'_>) -> bool {
        (self.set)(settings, value)
    }

    /// Why PyTorch would refuse its value beside the others.
    pub(in crate::settings) fn refuses_value(&self, settings: &TorchSettings) -> Option<String> {
        (self.refuses)(settings)
    }

    /// Its value in a snapshot of a release, where nobody has set it.
    fn default_of(&self, release: Option<TorchRelease>) -> Option<SettingValue<'static>> {
        let is_written = match (self.recorded_since, release) {
            (Some(since), Some(release)) => release >= since,
            _ => true,
        };
        self.default.filter(|_| is_written)
    }
}

impl TorchSettings {
    /// The setting that a snapshot's dictionary has under this key.
    pub(crate) fn recorded_as(key: &str) -> Option<&'static TorchSetting> {
        Self::ALL.iter().find(|setting| setting.recorded == Some(key))
    }

    /// What a snapshot of a release says, as far as it decides nothing about blocks of device memory and nobody has
    /// set it; without a release, of all of them.
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

/// A kind of values.
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
    /// Of [`SettingKind::Bytes`] and [`SettingKind::Number`].
    Int(i64),
    /// Of [`SettingKind::Fraction`].
    Float(f64),
    /// Of [`SettingKind::Truth`].
    Bool(bool),
    /// Of [`SettingKind::Divisions`].
    Divisions(PowerOfTwoDivisions),
    /// Of [`SettingKind::Word`].
    Word(&'s str),
}

/// The type of Rust in which [`TorchSettings`] hold the values of each [`SettingKind`].
pub(super) mod held {
    pub(in crate::settings::table) type Bytes = i64;
    pub(in crate::settings::table) type Number = i64;
    pub(in crate::settings::table) type Fraction = f64;
    pub(in crate::settings::table) type Truth = bool;
    pub(in crate::settings::table) type Divisions = super::PowerOfTwoDivisions;
    pub(in crate::settings::table) type Word = String;
}

/// A type in which values of settings are held.
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

/// Makes [`TorchSettings`], a field a row, and their table of [`TorchSetting`]s.
macro_rules! settings {
    ($($(#[doc = $about:literal])+ $name:ident: $kind:ident = $row:expr;)+) => {
        /// What a configuration text sets or a snapshot records; `None` where it says nothing.
        #[derive(Debug, Default, Clone, PartialEq)]
        pub struct TorchSettings {
            $($(#[doc = $about])+ pub $name: Option<$crate::settings::table::setting::held::$kind>,)+
            /// What a configuration text sets beside these, as written and in order.
            pub other: Vec<(String, String)>,
        }

        impl TorchSettings {
            /// Every setting that is known. Those of a snapshot's dictionary stand as PyTorch writes them.
            pub const ALL: &[TorchSetting] = &[$($row.of_field(
                concat!($($about),+),
                $crate::settings::table::setting::SettingKind::$kind,
                |settings| settings.$name.as_ref().map($crate::settings::table::setting::Held::value),
                |settings, value| {
                    settings.$name = $crate::settings::table::setting::Held::of(value);
                    settings.$name.is_some()
                },
            )),+];

            /// These, and where one says nothing, what `others` say.
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
