//! JSON over several lines as mosquitto_sub prints it: an object's members on lines of their own,
//! indented by tabs, lists on one line.

use serde_json::ser::Formatter;
use std::io::{self, Write};

#[derive(Debug, Default)]
pub(super) struct Tabs {
    depth: usize,
    /// Whether the innermost object has a member.
    has_member: bool,
}

impl Tabs {
    fn indent<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        (0..self.depth).try_for_each(|_| out.write_all(b"\t"))
    }
}

impl Formatter for Tabs {
    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.has_member = false;
        out.write_all(b"{\n")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",\n")?;
        }
        self.indent(out)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b":\t")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _out: &mut W) -> io::Result<()> {
        self.has_member = true;
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.has_member {
            out.write_all(b"\n")?;
        }
        self.indent(out)?;
        out.write_all(b"}")
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth += 1;
        out.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.depth -= 1;
        out.write_all(b"]")
    }
}
