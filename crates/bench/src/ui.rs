//! What is shown while runs last, and where: opens the viewers that are asked for.

use crate::interrupt::Interrupted;
use crate::live::lines::Lines;
use crate::live::screen::Screen;
use crate::live::{Live, Viewer};
use crate::web::{self, Web};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// What is shown, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ui {
    /// The screen where standard output is a terminal, else lines.
    #[default]
    Auto,
    /// Lines on standard error, one below the other.
    Plain,
    /// The whole terminal.
    Screen,
    /// A page at this address, and lines on standard error.
    Web(SocketAddr),
    /// Nothing before the tables.
    None,
}

impl FromStr for Ui {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(address) = text.strip_prefix("web=") {
            let hint = || format!("{address:?} is not an address such as 127.0.0.1:8080");
            return address.parse().map(Self::Web).map_err(|_| hint());
        }
        match text {
            "auto" => Ok(Self::Auto),
            "plain" => Ok(Self::Plain),
            "screen" => Ok(Self::Screen),
            "web" => Ok(Self::Web(web::ADDRESS)),
            "none" => Ok(Self::None),
            _ => Err("one of auto, plain, screen, web, web=ADDRESS, none".into()),
        }
    }
}

/// What the viewers of a command need to know.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What is shown, and where.
    pub ui: Ui,
    /// Where metrics can be read, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// The folder of results that the page browses.
    pub results: PathBuf,
    /// Where viewers may run: the load's core.
    pub core: Option<usize>,
}

/// Opens the viewers that are asked for. A wish to stop given to one sets `interrupted`.
///
/// # Errors
/// A screen that was asked for where there is no terminal, an address that is taken.
pub fn open(options: &Options, interrupted: &Interrupted) -> anyhow::Result<Live> {
    let mut viewers: Vec<Box<dyn Viewer>> = Vec::new();
    let page = if let Ui::Web(address) = options.ui { Some(address) } else { None };
    if page.is_some() || options.metrics.is_some() {
        // First: it says where it is, before there is a screen.
        let (metrics, results) = (options.metrics, &options.results);
        viewers.push(Box::new(Web::open(page, metrics, results, options.core)?));
    }
    // What calls itself dumb cannot be drawn on.
    let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
    let is_terminal = std::io::stdout().is_terminal() && !is_dumb;
    let has_line = std::io::stderr().is_terminal();
    match options.ui {
        Ui::None => {}
        Ui::Web(_) => viewers.push(Box::new(Lines::new(has_line))),
        Ui::Plain => viewers.push(Box::new(Lines::new(false))),
        Ui::Screen => viewers.push(Box::new(Screen::open(options.core, interrupted)?)),
        Ui::Auto => match is_terminal.then(|| Screen::open(options.core, interrupted)) {
            Some(Ok(screen)) => viewers.push(Box::new(screen)),
            // A terminal that cannot be drawn on bears a line.
            _ => viewers.push(Box::new(Lines::new(has_line))),
        },
    }
    Ok(Live::of(viewers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_to_show_is_read_or_refused_with_the_known_ones() {
        assert_eq!("screen".parse(), Ok(Ui::Screen));
        assert_eq!("web".parse(), Ok(Ui::Web(web::ADDRESS)));
        assert_eq!("web=[::1]:80".parse(), Ok(Ui::Web("[::1]:80".parse().unwrap())));
        assert!("web=8080".parse::<Ui>().unwrap_err().contains("127.0.0.1:8080"));
        assert!("gui".parse::<Ui>().unwrap_err().contains("screen"));
    }
}
