//! Every command with its options and operands.

use crate::getopt::{ArgKind, Opt};
use crate::verb::Verb;
use crate::{beadm, zfs, zpool};

/// What can be in the place of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    Nothing,
    Files,
    Pools,
    Datasets,
    Snapshots,
    AnyDatasets,
    /// One of these words, or several with commas between them.
    Words(Vec<String>),
    PoolProperties,
    AllPoolProperties,
    PoolAssignments,
    DatasetProperties,
    AllDatasetProperties,
    DatasetAssignments,
}

/// An option of a command.
#[derive(Debug)]
pub struct NodeOption {
    pub letter: Option<char>,
    pub long: Option<String>,
    pub about: String,
    /// `None`: it takes no argument.
    pub argument: Option<Offer>,
    /// The name of the argument in help texts; empty without one.
    pub argument_name: String,
}

/// A command: the program itself, or one below it.
#[derive(Debug)]
pub struct Node {
    pub name: String,
    pub about: String,
    pub options: Vec<NodeOption>,
    /// The last one stands for all further operands.
    pub operands: Vec<Offer>,
    pub children: Vec<Node>,
}

impl NodeOption {
    /// How it is written.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.letter
            .map(|letter| format!("-{letter}"))
            .into_iter()
            .chain(self.long.as_ref().map(|long| format!("--{long}")))
    }
}

impl Node {
    /// The command and all below it, with the words that lead to each.
    pub fn walk(&self) -> Vec<(String, &Self)> {
        let mut all = vec![(self.name.clone(), self)];
        for child in &self.children {
            all.extend(child.walk().into_iter().map(|(path, node)| (format!("{} {path}", self.name), node)));
        }
        all
    }
}

/// All programs that are completed. `weir`: its command line.
pub fn programs(weir: clap::Command) -> Vec<Node> {
    let faces = || {
        let faces = [
            ("zpool", "Manage pools", zpool::VERBS),
            ("zfs", "Manage datasets", zfs::VERBS),
            ("beadm", "Manage boot environments, as illumos does", beadm::VERBS),
            ("bectl", "Manage boot environments, as FreeBSD does", beadm::BECTL),
        ];
        faces.map(|(name, about, verbs)| of_verbs(name, about, verbs))
    };
    let mut line = weir;
    line.build();
    let mut node = of_clap(&line);
    node.children.retain(|child| !faces().iter().any(|face| face.name == child.name));
    node.children.extend(faces());
    std::iter::once(node).chain(faces()).collect()
}

fn of_verbs(name: &str, about: &str, verbs: &[&Verb]) -> Node {
    let supported = verbs.iter().filter(|verb| verb.run.is_some());
    let mut children: Vec<Node> = supported.map(|verb| of_verb(verb)).collect();
    let names = children.iter().map(|child| child.name.clone()).collect();
    children.push(Node {
        name: "help".to_owned(),
        about: "Show help for a command".to_owned(),
        options: Vec::new(),
        operands: vec![Offer::Words(names), Offer::Nothing],
        children: Vec::new(),
    });
    Node { name: name.to_owned(), about: about.to_owned(), options: Vec::new(), operands: Vec::new(), children }
}

fn of_verb(verb: &Verb) -> Node {
    let supported = verb.options.iter().filter(|option| option.refused.is_none());
    let mut options: Vec<NodeOption> = supported.map(of_opt).collect();
    options.push(NodeOption {
        letter: None,
        long: Some("help".to_owned()),
        about: "Show help.".to_owned(),
        argument: None,
        argument_name: String::new(),
    });
    Node {
        name: verb.name.to_owned(),
        about: verb.about.to_owned(),
        options,
        operands: verb.operands.iter().copied().map(offer).collect(),
        children: Vec::new(),
    }
}

fn of_opt(option: &Opt) -> NodeOption {
    NodeOption {
        letter: option.is_letter.then_some(option.key),
        long: option.long.map(str::to_owned),
        about: option.help.to_owned(),
        argument: option.argument.map(|argument| offer(argument.kind)),
        argument_name: option.argument.map_or_else(String::new, |argument| argument.name.to_owned()),
    }
}

fn offer(kind: ArgKind) -> Offer {
    match kind {
        ArgKind::Text => Offer::Nothing,
        ArgKind::File => Offer::Files,
        ArgKind::Pool => Offer::Pools,
        ArgKind::Dataset | ArgKind::NewDataset => Offer::Datasets,
        ArgKind::Snapshot => Offer::Snapshots,
        ArgKind::AnyDataset => Offer::AnyDatasets,
        ArgKind::Words(words) => Offer::Words(words.iter().map(|word| (*word).to_owned()).collect()),
        ArgKind::PoolProperties => Offer::PoolProperties,
        ArgKind::AllPoolProperties => Offer::AllPoolProperties,
        ArgKind::PoolAssignment => Offer::PoolAssignments,
        ArgKind::DatasetProperties => Offer::DatasetProperties,
        ArgKind::AllDatasetProperties => Offer::AllDatasetProperties,
        ArgKind::DatasetAssignment => Offer::DatasetAssignments,
    }
}

fn of_clap(command: &clap::Command) -> Node {
    let text = |styled: Option<&clap::builder::StyledStr>| {
        let text = styled.map(ToString::to_string).unwrap_or_default();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let options = shown().filter(|arg| !arg.is_positional()).map(|arg| NodeOption {
        letter: arg.get_short(),
        long: arg.get_long().map(str::to_owned),
        about: text(arg.get_help()),
        argument: arg.get_action().takes_values().then(|| of_arg(arg)),
        argument_name: match (arg.get_action().takes_values(), arg.get_value_names()) {
            (true, Some(names)) => names.join(" "),
            _ => String::new(),
        },
    });
    Node {
        name: command.get_name().to_owned(),
        about: text(command.get_about()),
        options: options.collect(),
        operands: shown().filter(|arg| arg.is_positional()).map(of_arg).collect(),
        children: command.get_subcommands().filter(|child| !child.is_hide_set()).map(of_clap).collect(),
    }
}

/// What an argument of clap is: its possible values, or what the name of its value says.
fn of_arg(arg: &clap::Arg) -> Offer {
    let words: Vec<String> = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !words.is_empty() {
        return Offer::Words(words);
    }
    let name = arg.get_value_names().and_then(|names| names.first()).map(|name| name.to_lowercase());
    match name.unwrap_or_default() {
        name if name.contains("dataset") || name.contains("volume") => Offer::AnyDatasets,
        name if name.contains("pool") => Offer::Pools,
        name if ["file", "folder", "dir", "path", "device", "source", "target", "socket", "certificate"]
            .iter()
            .any(|word| name.contains(word)) =>
        {
            Offer::Files
        }
        _ => Offer::Nothing,
    }
}
