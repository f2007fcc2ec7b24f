//! The configuration: one commented TOML file, and command line options that take precedence.
//!
//! Every key is one row of a table ([`keys`]): its default, its description, its accepted values.
//! The file that `weir config default` prints, the errors of `weir config check` and the list of
//! settings on the page are generated from it.
//!
//! Invariants:
//!   * a file with unknown or invalid entries is refused as a whole; each error names the line and
//!     the expected value
//!   * the output of `weir config default` is accepted, and changes nothing

mod file;
mod keys;
mod sections;
mod settings;
mod value;

pub use file::{DEFAULT_FILE, Wrong, default_file};
pub use keys::{Key, keys};
pub use sections::{
    AlertsConfig, AnalyticsConfig, ApiConfig, Config, EventsConfig, LogConfig, NbdConfig, NfsConfig, OtlpConfig,
    SharesConfig, SmbConfig,
};
pub use settings::{Change, Settings, Source};
pub use value::{LogFormat, NbdTls, Portmap, Size};

#[cfg(test)]
mod tests;
