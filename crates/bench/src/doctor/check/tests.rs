use super::super::looks::Busy;
use super::super::looks::tests::host;
use super::*;

const DEMAND: Demand = Demand { connections: 20_000, connect_rate_per_s: 5_000.0 };

/// A host on which nothing would spoil [`DEMAND`], but for `changed`.
fn check(name: &str, changed: &[(&str, &str)], busy: Busy) -> Check {
    let good = [
        ("proc/self/limits", "Limit  Soft  Hard\nMax open files   65536   1048576   files"),
        ("proc/sys/net/ipv4/ip_local_port_range", "1024\t65535"),
        ("proc/net/sockstat", "sockets: used 9\nTCP: inuse 5 orphan 0 tw 12 alloc 8 mem 1"),
        ("proc/sys/net/core/somaxconn", "4096"),
        ("proc/sys/net/ipv4/tcp_max_syn_backlog", "4096"),
        ("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:  8000000 kB"),
        ("proc/self/status", "Cpus_allowed_list:\t0-3"),
        ("proc/self/cgroup", "0::/a"),
        ("sys/fs/cgroup/a/cpu.max", "max 100000"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
    ];
    let files: Vec<(&str, &str)> = good.into_iter().chain(changed.iter().copied()).collect();
    let (_root, mut looks) = host(&files);
    looks.busy = Some(busy);
    let found = all(&looks, &DEMAND).into_iter().find(|check| check.name == name);
    found.unwrap_or_else(|| panic!("there is no check {name}"))
}

#[test]
fn nothing_spoils_a_run_on_a_good_host() {
    for looked in CHECKS {
        let check = check(looked.name, &[], Busy::default());
        assert_eq!((check.state, &*check.mend), (State::Fine, ""), "{check:?}");
    }
}

#[test]
fn everything_that_spoils_a_run_is_named_with_a_way_to_mend_it() {
    let busy = Busy { cores: 0.5, softirq: 0.1, steal: 0.3 };
    let cases: &[(&str, &str, &str, &str)] = &[
        ("open files", "proc/self/limits", "Max open files 1024 4096 files", "ulimit -n 20100"),
        ("ports", "proc/sys/net/ipv4/ip_local_port_range", "32768 40000", "1024 65535"),
        ("ports in TIME_WAIT", "proc/net/sockstat", "TCP: inuse 5 orphan 0 tw 50000", "tw_reuse=1"),
        ("accept backlog", "proc/sys/net/core/somaxconn", "128", "somaxconn=4096"),
        ("SYN backlog", "proc/sys/net/ipv4/tcp_max_syn_backlog", "256", "syn_backlog=4096"),
        ("connection tracking", "proc/sys/net/netfilter/nf_conntrack_max", "8192", "NOTRACK"),
        ("memory", "proc/meminfo", "MemAvailable: 100000 kB", "--scale"),
        ("memory", "sys/fs/cgroup/a/memory.max", "100000000", "--scale"),
        ("processors", "proc/self/status", "Cpus_allowed_list:\t3", "at least two"),
        ("CPU quota", "sys/fs/cgroup/cpu.max", "150000 100000", "quota"),
        (
            "CPU governor",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "powersave",
            "-g performance",
        ),
        ("other load", "proc/loadavg", "", "stop whatever else runs"),
        ("stolen time", "proc/cpuinfo", "flags: hypervisor", "host with dedicated processors"),
        ("soft interrupts", "proc/loadavg", "", "smp_affinity_list"),
        (
            "clock source",
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet",
            "echo tsc > ",
        ),
        (
            "huge pages",
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never",
            "echo madvise",
        ),
    ];
    for (name, path, text, mend) in cases {
        let check = check(name, &[(path, text)], busy);
        assert_eq!(check.state, State::Warning, "{check:?}");
        assert!(check.mend.contains(mend) && !check.found.is_empty(), "{check:?}");
    }
    let named = |looked: &&Looked| cases.iter().any(|(name, ..)| *name == looked.name);
    assert_eq!(CHECKS.iter().filter(named).count(), CHECKS.len(), "each has a case above");
}

#[test]
fn a_low_limit_of_open_files_is_no_warning_where_io_uring_holds_the_rest() {
    let (_root, mut looks) = host(&[("proc/self/limits", "Max open files 1024 4096 files")]);
    for (holds, state) in
        [(DEMAND.connections - 1, State::Warning), (DEMAND.connections, State::Fine)]
    {
        looks.holds = holds;
        let found = all(&looks, &DEMAND).into_iter().find(|check| check.name == "open files");
        let check = found.unwrap();
        assert_eq!((check.state, check.found.contains("io_uring")), (state, state == State::Fine));
    }
}

#[test]
fn what_the_host_does_not_say_is_unknown_and_no_warning() {
    let (_root, looks) = host(&[]);
    for check in all(&looks, &DEMAND) {
        assert_ne!(check.state, State::Warning, "{check:?}");
    }
}

#[test]
fn the_demand_of_several_use_cases_is_the_largest_of_each_kind() {
    let use_cases = crate::usecase::all();
    let demand = Demand::of(&use_cases, 0.5);
    assert_eq!(demand, Demand { connections: 500_000, connect_rate_per_s: 5_000.0 });
}
