//! `weir ctl cluster`: the nodes of the cluster, and how one is forgotten.

use super::text::{cut, error, json, printable, short};
use super::{granted, removed};
use clap::Subcommand;
use std::process::ExitCode;
use weir_control::{
    Caller, Cluster, ClusterNode, KeptCopies, NodeCopy, NodeCopyState, NodeState, OwnCopy,
    OwnCopyState,
};
use weir_say::{noteln, say, sayln};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct ClusterArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    order: Option<Order>,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Free the slot and the shard numbers of a node that will not come back
    Forget {
        /// Its name
        #[arg(value_name = "NODE")]
        name: String,
    },
}

pub(super) fn run(
    caller: &Caller,
    ClusterArgs { json: is_json, order }: &ClusterArgs,
) -> anyhow::Result<ExitCode> {
    if let Some(Order::Forget { name }) = order {
        return removed(&caller.delete(&Caller::node_path(name))?);
    }
    let cluster = granted(&caller.get("/api/v1/cluster")?)?["cluster"].take();
    if cluster.is_null() {
        noteln!("weir: the broker is no node of a cluster");
        return Ok(ExitCode::from(1));
    }
    match is_json {
        true => sayln!("{}", json(&cluster)),
        false => say!("{}", table(&serde_json::from_value(cluster)?)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Columns that are left for where a node is.
const ADDRESS_COLUMNS: usize = 19;

/// How this node stands, and a line for each that has a place.
fn table(cluster: &Cluster) -> String {
    let Cluster { name, node, lease_ms, fences, nodes_lost, nodes, .. } = cluster;
    let members = cluster.members();
    let lease = match (cluster.minority, cluster.fenced) {
        (true, _) => "MINORITY, serves clients without a kept session by itself".to_owned(),
        (false, true) => "FENCED, lets nobody in".to_owned(),
        (false, false) => format!("lease {}.{} s", lease_ms / 1_000, lease_ms % 1_000 / 100),
    };
    let mut text = format!(
        "cluster {}, {members} members; this is {}: {lease}\n\
         since the start: fenced {fences}, nodes lost {nodes_lost}\n",
        error(name),
        error(node),
    );
    text.extend(cluster.copies.iter().map(own_copy));
    if cluster.copies_failed > 0 {
        text += &format!("copies of this log that could not go on: {}\n", cluster.copies_failed);
    }
    text.extend(cluster.kept.as_ref().and_then(kept));
    text += "NODE            SLOT   SHARDS  STATE      SINCE  WAITING  ADDRESS\n";
    text.extend(nodes.iter().map(line));
    text.extend(nodes.iter().filter_map(unresolved));
    if nodes.iter().any(|node| node.copy.is_some()) {
        text += "\nLOG OF          COPY AT\n";
        text.extend(nodes.iter().map(copy_line));
    }
    text
}

/// How a copy of this node's log stands.
fn own_copy(copy: &OwnCopy) -> String {
    let keeper = copy.keeper.as_deref().map_or("another node".into(), of_name);
    let state = match copy.state {
        OwnCopyState::None => "NONE".to_owned(),
        OwnCopyState::Filling => format!("NOT WHOLE, goes to {keeper}"),
        OwnCopyState::Whole => format!("whole, at {keeper}"),
        OwnCopyState::Ending => format!("ENDS at {keeper}, clients wait until that is agreed on"),
    };
    let way = match copy.state {
        OwnCopyState::Filling | OwnCopyState::Whole | OwnCopyState::Ending => format!(
            "on the way there: {} records, {} bytes\n",
            short(copy.waiting_records),
            short(copy.waiting_bytes)
        ),
        OwnCopyState::None => String::new(),
    };
    format!("copy of this log: {state}, for {}\n{way}", length(copy.state_s))
}

/// What this node has of others, if it has had anything.
fn kept(kept: &KeptCopies) -> Option<String> {
    let KeptCopies { logs, disk_bytes, opened, failed } = *kept;
    let bytes = short(disk_bytes);
    (*kept != KeptCopies::default()).then(|| {
        format!("copies here: {logs} logs, {bytes} bytes; opened {opened}, not served {failed}\n")
    })
}

/// Who has copies of a node's log.
fn copy_line(node: &ClusterNode) -> String {
    let at = match &node.copy {
        None => "-".to_owned(),
        Some(NodeCopy { keepers, state }) => match (state, &keepers[..]) {
            (NodeCopyState::Kept | NodeCopyState::Opened, []) => "NONE".to_owned(),
            (NodeCopyState::Kept, keepers) => {
                keepers.iter().map(|keeper| of_name(keeper)).collect::<Vec<_>>().join(", ")
            }
            (NodeCopyState::Opened, [keeper, ..]) => {
                format!("{}, which serves its sessions", of_name(keeper))
            }
            (NodeCopyState::Void, _) => "its sessions are other nodes' now".to_owned(),
        },
    };
    format!("{:<14}  {at}\n", of_name(&node.name))
}

/// A node's name; one too long is cut.
fn of_name(name: &str) -> String {
    cut(&printable(name), 14)
}

fn unresolved(ClusterNode { name, address, unresolved, .. }: &ClusterNode) -> Option<String> {
    let (address, why) = (address.as_ref()?, unresolved.as_ref()?);
    Some(format!(
        "{}: its address {} does not resolve: {}\n",
        error(name),
        error(address),
        error(why)
    ))
}

fn line(node: &ClusterNode) -> String {
    let state = match node.state {
        NodeState::Own => "own",
        NodeState::Up => "up",
        NodeState::Down => "DOWN",
        NodeState::StandIn => "STAND-IN",
        NodeState::Away => "AWAY",
    };
    let waiting = node.link.map_or("-".to_owned(), |link| short(link.waiting_letters));
    let last = node.first_shard + node.shards.saturating_sub(1);
    let address = node.address.as_deref().unwrap_or("-");
    format!(
        "{:<14}  {:>4}  {:>7}  {state:<8}  {:>6}  {waiting:>7}  {}\n",
        of_name(&node.name),
        node.slot,
        format!("{}-{last}", node.first_shard),
        length(node.state_s),
        cut(&printable(address), ADDRESS_COLUMNS),
    )
}

/// A time, as long as it is worth to know.
fn length(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use weir_control::ClusterLink;

    #[test]
    fn a_line_for_each_node_says_how_it_is() {
        let node = |name: &str, slot: u8, state: &str, link: serde_json::Value| {
            let address = (state != "away").then_some("10.0.0.1:7883");
            json!({
                "name": name, "slot": slot, "first_shard": slot * 2, "shards": 2, "state": state,
                "state_s": 60 * u64::from(slot), "address": address, "incarnation": 7,
                "letters": 3, "link": link,
            })
        };
        let link = ClusterLink { waiting_letters: 12_345_678, ..ClusterLink::default() };
        let link = serde_json::to_value(link).unwrap();
        let mut cluster = json!({
            "name": "weir", "node": "a", "letters": 3, "fenced": false, "lease_ms": 4_678,
            "fences": 0, "nodes_lost": 1, "unaddressed": 0, "copies": [], "copies_failed": 0,
            "nodes": [
                node("a", 0, "own", json!(null)),
                node("b", 1, "up", link),
                node("a-name-that-is-too-long", 15, "away", json!(null)),
            ],
        });
        let text =
            |cluster: &serde_json::Value| table(&serde_json::from_value(cluster.clone()).unwrap());
        assert_eq!(
            text(&cluster),
            "cluster weir, 2 members; this is a: lease 4.6 s\n\
             since the start: fenced 0, nodes lost 1\n\
             NODE            SLOT   SHARDS  STATE      SINCE  WAITING  ADDRESS\n\
             a                  0      0-1  own          0 s        -  10.0.0.1:7883\n\
             b                  1      2-3  up          60 s   12345k  10.0.0.1:7883\n\
             a-name-that-i…    15    30-31  AWAY      15 min        -  -\n"
        );
        let of_b = cluster["nodes"][1].as_object_mut().unwrap();
        of_b.extend([
            ("state".to_owned(), "down".into()),
            ("address".to_owned(), "b.lab:7883".into()),
            ("unresolved".to_owned(), "no such\u{1b} name".into()),
        ]);
        let said = text(&cluster);
        let line = said.lines().last().unwrap();
        assert!(line.starts_with("b: its address b.lab:7883 does not resolve: no such"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
        cluster["fenced"] = true.into();
        assert!(text(&cluster).contains("FENCED, lets nobody in"));
        cluster["minority"] = true.into();
        assert!(text(&cluster).contains("this is a: MINORITY, serves clients without a kept "));
    }
    #[test]
    fn who_has_whose_copy_is_shown_where_there_are_copies() {
        let node = |name: &str, slot: u8, state: &str, copy: serde_json::Value| {
            json!({
                "name": name, "slot": slot, "first_shard": slot * 2, "shards": 2, "state": state,
                "state_s": 9, "address": null, "incarnation": 7, "letters": 3, "link": null,
                "copy": copy,
            })
        };
        let copy = |keepers: &[&str], state: NodeCopyState| {
            let keepers = keepers.iter().map(|&keeper| keeper.to_owned()).collect();
            serde_json::to_value(NodeCopy { keepers, state }).unwrap()
        };
        let mut cluster = json!({
            "name": "weir", "node": "a", "letters": 3, "fenced": false, "lease_ms": 4_678,
            "fences": 0, "nodes_lost": 1, "unaddressed": 0,
            "copies": [
                {
                    "state": "whole", "state_s": 130, "keeper": "b", "waiting_records": 12,
                    "waiting_bytes": 3_456,
                },
                {
                    "state": "none", "state_s": 7, "keeper": null, "waiting_records": 0,
                    "waiting_bytes": 0,
                },
            ],
            "copies_failed": 0,
            "kept": { "logs": 2, "disk_bytes": 64_000_000, "opened": 1, "failed": 0 },
            "nodes": [
                node("a", 0, "own", copy(&["b", "e"], NodeCopyState::Kept)),
                node("b", 1, "up", copy(&[], NodeCopyState::Kept)),
                node("c", 2, "stand_in", copy(&["a", "b"], NodeCopyState::Opened)),
                node("d", 3, "away", copy(&[], NodeCopyState::Void)),
                node("e", 4, "up", json!(null)),
            ],
        });
        let text =
            |cluster: &serde_json::Value| table(&serde_json::from_value(cluster.clone()).unwrap());
        assert_eq!(
            text(&cluster),
            "cluster weir, 3 members; this is a: lease 4.6 s\n\
             since the start: fenced 0, nodes lost 1\n\
             copy of this log: whole, at b, for 2 min\n\
             on the way there: 12 records, 3456 bytes\n\
             copy of this log: NONE, for 7 s\n\
             copies here: 2 logs, 64000k bytes; opened 1, not served 0\n\
             NODE            SLOT   SHARDS  STATE      SINCE  WAITING  ADDRESS\n\
             a                  0      0-1  own          9 s        -  -\n\
             b                  1      2-3  up           9 s        -  -\n\
             c                  2      4-5  STAND-IN     9 s        -  -\n\
             d                  3      6-7  AWAY         9 s        -  -\n\
             e                  4      8-9  up           9 s        -  -\n\n\
             LOG OF          COPY AT\n\
             a               b, e\n\
             b               NONE\n\
             c               a, which serves its sessions\n\
             d               its sessions are other nodes' now\n\
             e               -\n"
        );
        cluster["kept"] = json!({ "logs": 0, "disk_bytes": 0, "opened": 0, "failed": 0 });
        cluster["copies_failed"] = 3.into();
        let said = text(&cluster);
        assert!(said.contains("7 s\ncopies of this log that could not go on: 3\nNODE"), "{said}");
    }
}
