//! Changes of the pool's name, guid and texts.

use super::spa::Writer;
use block::zevent::class;
use errors::Result;

impl Writer {
    pub fn name(&self) -> String {
        self.shared.config.identity.lock().name.clone()
    }

    /// Renames the pool in the next txg (`zpool import POOL NEWNAME`).
    pub fn set_name(&self, name: &str) -> Result<()> {
        {
            let mut identity = self.shared.config.identity.lock();
            identity.name = name.to_owned();
            identity.label_name = name.to_owned();
        }
        self.shared.report_identity();
        self.change_config()
    }

    /// Sets the comment and the compatibility in the configuration.
    pub fn set_texts(&self, comment: Option<Option<String>>, compatibility: Option<Option<String>>) -> Result<()> {
        {
            let mut identity = self.shared.config.identity.lock();
            if let Some(comment) = comment {
                identity.comment = comment;
            }
            if let Some(compatibility) = compatibility {
                identity.compatibility = compatibility;
            }
        }
        self.change_config()
    }

    /// Reads the ID of this host again, which may have got one since the pool was opened: for
    /// `multihost=on`. Not for the syncing thread, since the file with the ID may be in the pool.
    pub fn update_host(&self) {
        let (hostid, hostname) = self.shared.options.this_host();
        let mut identity = self.shared.config.identity.lock();
        if identity.hostid != hostid {
            (identity.hostid, identity.hostname) = (hostid, hostname);
            self.shared.config.mark_dirty();
        }
    }

    /// Changes the pool's guid (`zpool reguid`).
    pub fn set_guid(&self, guid: u64) -> Result<()> {
        self.task(move |cx| {
            cx.shared.refuse_with_checkpoint()?;
            {
                let mut root = cx.shared.config.root.lock();
                root.guid = guid;
                root.all.put(ondisk::pool_dir::config::GUID, guid);
            }
            cx.shared.config.identity.lock().guid = guid;
            cx.shared.report_identity();
            cx.store().reporter().sysevent(class::POOL_REGUID, |_| ());
            cx.config_changed();
            Ok(())
        })
    }

    pub(crate) fn change_config(&self) -> Result<()> {
        self.task(|cx| {
            cx.config_changed();
            Ok(())
        })
    }
}
