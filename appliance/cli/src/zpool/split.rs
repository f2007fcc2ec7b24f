//! `zpool split`: turns one side of each mirror into a new pool, which is left exported, or
//! imported with `-R`.

use super::states::status;
use super::writing::{self, command_line, reason};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use admin::pool_properties::{PoolSetting, When, parse};
use admin::status::{PoolStatus, VdevClass, VdevStatus};
use admin::vdev_names::{self as names, NameOptions, vdev_name};

const OPTIONS: Options = Options { short: "gLR:lno:P", long: &[] };

/// `zpool split`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let imports = parsed.has('R');
    let options: Vec<&str> = parsed.all('o').collect();
    if !imports && options.iter().any(|option| !option.contains('=')) {
        return Err(Failure::usage("setting mntopts is only valid when importing the pool"));
    }
    if !imports && parsed.has('l') {
        return Err(Failure::usage("loading keys is only valid when importing the pool"));
    }
    let (name, new, devices) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("Missing pool name")),
        [_] => return Err(Failure::usage("Missing new pool name")),
        [name, new, devices @ ..] => (name, new, devices),
    };
    let record = writing::record(cx, name)?;
    let cannot = format!("Unable to split {name}");
    let failed = |why: &str| Failure::failed(format!("{cannot}: {why}"));
    let exists = cx.state.pool(new).map_err(|e| failed(&format!("{e:#}")))?.is_some();
    if exists {
        return Err(failed("pool already exists"));
    }
    admin::create::check_name(new).map_err(|why| failed(&why))?;
    let assigned: Vec<(&str, &str)> = options.iter().filter_map(|option| option.split_once('=')).collect();
    for (property, value) in assigned.iter().filter(|_| !imports) {
        match parse(property, value, When::Set).map_err(|reason| failed(&reason.text))? {
            PoolSetting::Stored(name, _) if name != "bootfs" => {}
            PoolSetting::Feature(..) => {}
            _ => {
                let what = format!("unsupported: 'zpool split' with '-o {property}' and without '-R'");
                return Err(Failure::failed(what));
            }
        }
    }
    let pool = writing::open(cx, &record, &cannot)?;
    let before = status(&pool)?;
    let named = devices.iter().map(|device| match names::find(&before, device) {
        Some(found) => Ok(found.guid),
        None => Err(failed("Device list must include at most one disk from each mirror")),
    });
    let named = named.collect::<Result<Vec<u64>, Failure>>()?;
    let taken = pool.writer().plan_split(&named).map_err(|e| failed(&writing::why(&e)))?;
    if parsed.has('n') {
        cx.print(&layout(&before, new, &taken, name_options(&parsed)));
        return pool.finish().map(|()| 0).map_err(|e| failed(&reason(&e)));
    }
    let places: Vec<String> = taken
        .iter()
        .filter_map(|guid| before.root.walk().into_iter().find(|v| v.guid == *guid)?.path.clone())
        .collect();
    let done =
        admin::split::split(&pool, new, &named).and_then(|()| pool.note_command(&command_line("zpool split", args)));
    let closed = pool.finish();
    done.and(closed).map_err(|e| failed(&reason(&e)))?;
    let mut words = Vec::new();
    for place in &places {
        words.extend(["-d".to_owned(), place.clone()]);
    }
    if !imports {
        return if options.is_empty() { Ok(0) } else { set_properties(cx, words, new, &options) };
    }
    for option in options.iter().filter(|option| option.contains('=')) {
        words.extend(["-o".to_owned(), (*option).to_owned()]);
    }
    words.extend(parsed.has('l').then(|| "-l".to_owned()));
    words.extend(["-R".to_owned(), parsed.last('R').unwrap_or_default().to_owned(), new.clone()]);
    super::import::run(cx, &words)
}

/// Sets properties of the new pool: imports it without mounting anything, and exports it again.
fn set_properties(cx: &mut Context<'_>, mut import: Vec<String>, name: &str, options: &[&str]) -> Outcome {
    import.extend(["-N".to_owned(), name.to_owned()]);
    let mut code = super::import::run(cx, &import)?;
    if code != 0 {
        return Ok(code);
    }
    let name = name.to_owned();
    for option in options {
        match super::set::run(cx, &[(*option).to_owned(), name.clone()]) {
            Ok(set) => code |= set,
            Err(Failure::Usage(why) | Failure::Failed(why) | Failure::Refused { message: why, .. }) => {
                cx.complain(&why);
                code = 1;
            }
            Err(Failure::Code(set)) => code |= set,
        }
    }
    Ok(code | super::export::run(cx, &[name])?)
}

fn name_options(parsed: &Parsed) -> NameOptions {
    NameOptions { guid: parsed.has('g'), follow: parsed.has('L'), path: parsed.has('P') }
}

/// The layout of the pool that a split would create.
fn layout(status: &PoolStatus, new: &str, plan: &[u64], options: NameOptions) -> String {
    let mut out = format!("would create '{new}' with the following layout:\n\n");
    for (class, heading) in [(VdevClass::Normal, new), (VdevClass::Dedup, "dedup"), (VdevClass::Special, "special")] {
        let tops = status.root.children.iter().filter(|top| top.class == class);
        let going =
            |top: &VdevStatus| top.walk().into_iter().find(|v| plan.contains(&v.guid)).map(|v| vdev_name(v, options));
        let lines: Vec<String> = tops.filter_map(going).collect();
        if class == VdevClass::Normal || !lines.is_empty() {
            out.push_str(&format!("\t{heading}\n"));
            lines.iter().for_each(|line| out.push_str(&format!("\t  {line}\n")));
        }
    }
    out
}
