use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use weir_bench::driver::program_of_host;

/// The time by the clock on the wall, in seconds since 1970, and by the monotonic one.
type Times = (f64, f64);

/// A process that says what its clocks show when it is asked.
struct Speaker(Child, BufReader<std::process::ChildStdout>);

impl Speaker {
    fn start() -> Option<Self> {
        let says = "import sys, time\nfor _ in sys.stdin: \
                    print(time.time(), time.monotonic(), time.clock_gettime(5), flush=True)";
        let python = program_of_host("python3")?;
        let mut command = Command::new(python);
        command.args(["-c", says]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Some(Self(child, said))
    }

    fn times(&mut self) -> Times {
        self.0.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        let all: Vec<f64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert!((all[0] - all[2]).abs() < 1.0, "the coarse clock shows the same: {line}");
        (all[0], all[1])
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How far clocks have moved, in seconds; the processes take a little to answer.
fn moved(from: Times, to: Times) -> (f64, f64) {
    (((to.0 - from.0) / 10.0).round() * 10.0, ((to.1 - from.1) / 10.0).round() * 10.0)
}

#[test]
fn the_wall_clock_of_one_process_is_stepped_and_nothing_else() {
    let (Some(mut one), Some(mut other)) = (Speaker::start(), Speaker::start()) else { return };
    let (before, others) = (one.times(), other.times());
    let clock = Clock::of(Pid::from_child(&one.0)).unwrap();
    assert_eq!(moved(before, one.times()), (0.0, 0.0));
    for step in [3_600, -7_200, 0] {
        clock.step(step).unwrap();
        assert_eq!(moved(before, one.times()), (step as f64, 0.0));
        assert_eq!(moved(others, other.times()), (0.0, 0.0));
    }
}

#[test]
fn a_shell_sees_it_by_the_older_functions_too() {
    let Some(bash) = program_of_host("bash") else { return };
    let says = "while read -r; do printf '%(%s)T %s\\n' -1 ${EPOCHREALTIME/[.,]*}; done";
    let mut command = Command::new(bash);
    command.args(["-c", says]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut ask = || {
        child.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let (time, time_of_day) = line.trim().split_once(' ').unwrap();
        [time, time_of_day].map(|it| it.parse::<f64>().unwrap())
    };
    let before = ask();
    let clock = Clock::of(Pid::from_child(&child)).unwrap();
    clock.step(-3_600).unwrap();
    let after = ask();
    child.kill().unwrap();
    child.wait().unwrap();
    for (before, after) in before.into_iter().zip(after) {
        assert_eq!(((after - before) / 10.0).round() * 10.0, -3_600.0);
    }
}

#[test]
fn code_leads_to_the_step_from_where_it_stands() {
    let reader = CODES[0].at(0x1000, 0x1040);
    let end = CODES[0].head.len();
    // The address counts from behind itself.
    assert_eq!(reader[end..end + 4], (0x40 - end as i32 - 4).to_le_bytes());
    assert!(CODES.iter().all(|code| code.at(0, 0).len() <= 40), "as long as the shortest");
}
