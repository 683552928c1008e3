//! The shell of every page of the suite: one file that loads nothing, with its own styles, data
//! and scripts.

use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Value, json};

const SHELL: &str = include_str!("../assets/page.html");

/// Of all pages but the live one.
pub const CSS: &str = include_str!("../assets/report.css");

pub use weir_http::assets::{UPLOT_CSS, UPLOT_JS};

/// A page, but for the values of its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Page<'a> {
    /// As a tab names it.
    pub title: &'a str,
    /// One behind the other.
    pub styles: &'a [&'a str],
    /// The template of what is in the body.
    pub body: &'a str,
    /// What the scripts read, if they read anything.
    pub data: Option<&'a Value>,
    /// An element each.
    pub scripts: &'a [&'a str],
    /// Whether it is served: then the server says what it may load, else the page itself does.
    pub is_served: bool,
}

impl Page<'_> {
    /// The text of the page.
    ///
    /// # Errors
    /// A template that does not fit (tests render them all).
    pub fn html(&self, values: &Value) -> anyhow::Result<String> {
        // `</script` would end the element and `<!--` would hide its end: JSON may spell `<` as a
        // code.
        let data = self.data.map(serde_json::to_string).transpose()?;
        let shell = json!({
            "title": self.title,
            "style": self.styles.join("\n"),
            "body": render(self.body, values)?,
            "data": data.map(|data| data.replace('<', "\\u003c")),
            "scripts": self.scripts,
            "is_file": !self.is_served,
        });
        render(SHELL, &shell)
    }
}

/// Fills a template of a page: a value that it names and that is missing is an error, text is
/// escaped.
fn render(template: &str, values: &Value) -> anyhow::Result<String> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    // What escapes is chosen by the name.
    environment.add_template("page.html", template)?;
    Ok(environment.get_template("page.html")?.render(minijinja::value::Serde(values))?)
}
