//! Properties that were set on the pool.

use crate::Pool;
use errors::Result;
use object::zap::Zap;
use ondisk::pool_dir::directory;
use ondisk::zap::Value as ZapValue;

impl Pool {
    /// Name and value of every property that was set (`pool_props`), including user properties.
    pub fn set_properties(&self) -> Result<Vec<(String, ZapValue)>> {
        match self.directory().lookup_u64(directory::PROPS)? {
            None | Some(0) => Ok(Vec::new()),
            Some(id) => {
                let entries = Zap::open(self.mos().object(id)?)?.entries()?;
                Ok(entries.into_iter().map(|e| (String::from_utf8_lossy(&e.name).into_owned(), e.value)).collect())
            }
        }
    }

    /// Whether a property was set to `on`.
    pub fn is_on(&self, name: &str) -> Result<bool> {
        Ok(self.set_properties()?.iter().any(|(n, value)| n == name && value.as_u64() == Some(1)))
    }
}
