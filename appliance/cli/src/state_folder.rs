//! The state folder of commands that talk to `weir serve`: its configuration may name one.

use admin::state::State;
use anyhow::Result;
use daemon::config::Config;

/// The state directory: --state and $WEIR_STATE take precedence over the file.
pub fn configured(config: &Config) -> Result<State> {
    let state = State::of_process()?;
    match &config.state {
        Some(folder) if !state.is_chosen() => {
            admin::state::choose(folder.clone());
            State::of_process()
        }
        _ => Ok(state),
    }
}
