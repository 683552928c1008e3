//! `weir ctl cluster`: the nodes of the cluster, and how one is forgotten.

use super::text::{cut, error, json, printable, short};
use super::{granted, removed};
use clap::Subcommand;
use std::process::ExitCode;
use weir_control::{Caller, Cluster, ClusterNode, NodeState};
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
    let Cluster { name, node, fenced, lease_ms, fences, nodes_lost, nodes, .. } = cluster;
    let members = nodes.iter().filter(|node| node.state != NodeState::Away).count();
    let lease = match fenced {
        true => "FENCED, lets nobody in".to_owned(),
        false => format!("lease {}.{} s", lease_ms / 1_000, lease_ms % 1_000 / 100),
    };
    let mut text = format!(
        "cluster {}, {members} members; this is {}: {lease}\n\
         since the start: fenced {fences}, nodes lost {nodes_lost}\n\
         NODE            SLOT   SHARDS  STATE   SINCE  WAITING  ADDRESS\n",
        error(name),
        error(node),
    );
    text.extend(nodes.iter().map(line));
    text.extend(nodes.iter().filter_map(unresolved));
    text
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
        NodeState::Away => "AWAY",
    };
    let waiting = node.link.map_or("-".to_owned(), |link| short(link.waiting_letters));
    let last = node.first_shard + node.shards.saturating_sub(1);
    let address = node.address.as_deref().unwrap_or("-");
    format!(
        "{:<14}  {:>4}  {:>7}  {state:<5}  {:>6}  {waiting:>7}  {}\n",
        cut(&printable(&node.name), 14),
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
            "fences": 0, "nodes_lost": 1, "unaddressed": 0, "nodes": [
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
             NODE            SLOT   SHARDS  STATE   SINCE  WAITING  ADDRESS\n\
             a                  0      0-1  own       0 s        -  10.0.0.1:7883\n\
             b                  1      2-3  up       60 s   12345k  10.0.0.1:7883\n\
             a-name-that-i…    15    30-31  AWAY   15 min        -  -\n"
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
    }
}
