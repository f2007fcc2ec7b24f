//! NFS and SMB shares, and their clients.

use super::caller::Caller;
use super::names::dataset_name;
use super::pools::audited;
use super::reply::{Answer, Body, Page, Path, Problem, Query, waiting};
use crate::exports::{self, Shared};
use crate::service::Service;
use crate::smb::{SmbOptions, SmbShare};
use admin::verbs::pool_of;
use api::{ClientList, ErrorCode, Protocol, Role, SetShare, Share, ShareHost, ShareList};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serve::nfs::exports::ShareOptions;
use std::sync::Arc;

pub async fn list(State(service): State<Arc<Service>>, Query(page): Query<Page>) -> Answer<Json<ShareList>> {
    waiting(move || {
        let limit = page.limit()?;
        let mut all: Vec<Share> = Vec::new();
        for pool in service.owner.house.list() {
            let shared = exports::of_pool(&pool)?.into_iter().filter(|s| s.options != "off");
            all.extend(shared.map(|s| shown(&service, s)));
        }
        all.extend(service.servers.smb.shares()?.into_iter().map(|s| shown_smb(&service, s)));
        all.sort_by_key(place);
        let cursor = page.cursor.unwrap_or_default();
        let start = all.partition_point(|s| place(s) <= cursor);
        let more = all.len() - start > limit;
        let items: Vec<Share> = all.into_iter().skip(start).take(limit).collect();
        let next = more.then(|| items.last().map(place)).flatten();
        Ok(Json(ShareList { items, next }))
    })
    .await
}

/// Sort key of a share: a dataset may be shared by both protocols.
fn place(share: &Share) -> String {
    let protocol = if share.protocol == Protocol::Nfs { "nfs" } else { "smb" };
    format!("{}\0{protocol}", share.dataset)
}

fn shown_smb(service: &Service, share: SmbShare) -> Share {
    let reason = share.problem.or_else(|| service.servers.smb.failure(&service.settings.now().smb));
    let who = if share.options.guests { "everybody" } else { "users" };
    let host = ShareHost { hosts: who.to_owned(), writable: !share.options.read_only, squash: "none".to_owned() };
    Share {
        dataset: share.dataset,
        protocol: Protocol::Smb,
        path: Some(share.name),
        options: share.text,
        inherited_from: share.inherited_from,
        active: reason.is_none(),
        reason,
        hosts: vec![host],
    }
}

fn shown(service: &Service, shared: Shared) -> Share {
    let hosts = hosts(&shared.options);
    let unshared = || service.owner.unshared.lock().contains(&shared.dataset).then(|| "it was unshared".to_owned());
    let silent = || {
        let is_silent = service.settings.now().nfs.listen.is_empty();
        is_silent.then(|| "the NFS server is not configured to listen (nfs.listen)".to_owned())
    };
    let reason = shared.problem.or_else(unshared).or_else(silent);
    Share {
        dataset: shared.dataset,
        protocol: Protocol::Nfs,
        path: shared.path,
        options: shared.options,
        inherited_from: shared.inherited_from,
        active: reason.is_none(),
        reason,
        hosts,
    }
}

/// Permitted hosts according to the options.
fn hosts(options: &str) -> Vec<ShareHost> {
    if options == "off" {
        return Vec::new();
    }
    let words: Vec<&str> = options.split([',', ' ']).filter(|w| !w.is_empty()).collect();
    let squash = match () {
        () if words.contains(&"all_squash") => "all",
        () if words.contains(&"no_root_squash") => "none",
        () => "root",
    };
    let trusted: Vec<&str> = words.iter().filter_map(|w| w.strip_prefix("root=")).flat_map(split_hosts).collect();
    let host = |hosts: &str, writable| {
        let squash = if trusted.contains(&hosts) && squash == "root" { "none" } else { squash };
        ShareHost { hosts: hosts.to_owned(), writable, squash: squash.to_owned() }
    };
    let mut found = Vec::new();
    for word in &words {
        let (list, writable) = match (word.strip_prefix("rw="), word.strip_prefix("ro=")) {
            (Some(list), _) => (list, true),
            (_, Some(list)) => (list, false),
            _ => continue,
        };
        found.extend(split_hosts(list).map(|hosts| host(hosts, writable)));
    }
    if words.contains(&"ro") {
        found.push(host("*", false));
    } else if words.contains(&"rw") || found.is_empty() {
        found.push(host("*", true));
    }
    found
}

/// Splits at colons, except inside the brackets of IPv6 addresses.
fn split_hosts(list: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    let parts = list.split(move |c: char| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ':' && !inside
    });
    parts.filter(|p| !p.is_empty())
}

pub async fn set(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<SetShare>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let protocol = request.protocol.unwrap_or(Protocol::Nfs);
    let property = if protocol == Protocol::Nfs { "sharenfs" } else { "sharesmb" };
    if protocol == Protocol::Smb && caller.role < Some(Role::Administrator) {
        let message = "the property sharesmb is for administrators";
        return Err(Problem::new(ErrorCode::Forbidden, message).at("protocol"));
    }
    let value = match request.options.as_str() {
        "inherit" => None,
        options => {
            let wrong = match protocol {
                Protocol::Nfs => ShareOptions::parse(options).err(),
                Protocol::Smb => SmbOptions::parse(options).err(),
            };
            if let Some(why) = wrong.filter(|_| options != "off") {
                return Err(Problem::new(ErrorCode::InvalidRequest, why).at("options"));
            }
            Some(options.to_owned())
        }
    };
    let pool = service.pool(pool_of(&name))?;
    let line = match value {
        Some(value) => service.set(&caller, &name, vec![(property.to_owned(), value)]).await?,
        None => service.inherit(&caller, &name, property.to_owned()).await?,
    };
    let service = service.clone();
    let share = waiting(move || {
        let of_nfs = exports::of_dataset(&pool, &name)?;
        let of_nfs = of_nfs.ok_or_else(|| {
            Problem::new(ErrorCode::NotFound, format!("'{name}' is not a file system")).at(name.clone())
        })?;
        if protocol == Protocol::Nfs {
            return Ok(shown(&service, of_nfs));
        }
        let of_smb = service.servers.smb.shares()?.into_iter().find(|s| s.dataset == name);
        let off = |shared: Shared| Share {
            protocol: Protocol::Smb,
            options: "off".to_owned(),
            hosts: Vec::new(),
            active: false,
            reason: Some("sharesmb is off".to_owned()),
            ..shown(&service, shared)
        };
        Ok(of_smb.map_or_else(|| off(of_nfs), |s| shown_smb(&service, s)))
    });
    Ok((audited(line), Json(share.await?)).into_response())
}

pub async fn clients(State(service): State<Arc<Service>>) -> Json<ClientList> {
    Json(ClientList { items: service.servers.clients(), next: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(options: &str) -> Vec<String> {
        hosts(options)
            .iter()
            .map(|h| format!("{} {} {}", h.hosts, if h.writable { "rw" } else { "ro" }, h.squash))
            .collect()
    }

    #[test]
    fn options_determine_access() {
        assert_eq!(rules("on"), ["* rw root"]);
        assert_eq!(rules("off"), Vec::<String>::new());
        assert_eq!(rules("ro,all_squash"), ["* ro all"]);
        assert_eq!(
            rules("rw=@10.0.0.0/8:admin,ro=[fd00::1]:b,root=admin"),
            ["@10.0.0.0/8 rw root", "admin rw none", "[fd00::1] ro root", "b ro root"]
        );
    }
}
