//! Lengths of functions: one fits a screen.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Lines of a function, its signature included. Tests count too: a story of a test may be long, but
/// then it is two.
const FUNCTION_LINES_MAX: usize = 70;

/// A function that is too long.
pub(crate) struct Long {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// The functions of a file that are too long.
pub(crate) fn too_long(text: &str) -> syn::Result<Vec<Long>> {
    let file = syn::parse_file(text)?;
    let mut functions = Functions { long: Vec::new() };
    functions.visit_file(&file);
    Ok(functions.long)
}

struct Functions {
    long: Vec<Long>,
}

impl Functions {
    fn look(&mut self, name: &syn::Ident, from: Span, to: Span) {
        let (line, end) = (from.start().line, to.end().line);
        let lines = end - line + 1;
        if lines > FUNCTION_LINES_MAX {
            self.long.push(Long { name: name.to_string(), line, lines });
        }
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.look(&item.sig.ident, item.sig.span(), item.block.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.look(&item.sig.ident, item.sig.span(), item.block.span());
        visit::visit_impl_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_over_a_screen_is_named_with_its_line() {
        let body = |lines: usize| "    call();\n".repeat(lines - 2);
        let text = |lines| {
            format!("struct S;\nimpl S {{\n/// Docs.\nfn long() {{\n{}}}\n}}\n", body(lines))
        };
        assert!(too_long(&text(70)).unwrap().is_empty());
        let long = too_long(&text(71)).unwrap();
        assert_eq!((long[0].name.as_str(), long[0].line, long[0].lines), ("long", 4, 71));
    }
}
