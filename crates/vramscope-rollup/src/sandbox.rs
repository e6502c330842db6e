//! What a query may not do: open files and stores, build values of any size, be too long for the planner.

use std::sync::Arc;

use datafusion::common::{Result, plan_err};
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use url::Url;

/// The URL under which scans of recordings are planned. Its store is empty: `scan` reads the recordings itself.
const RECORDINGS: &str = "recordings://job";

/// Limit on the operators and keywords of a statement. DataFusion plans recursively over chains such as `a OR b OR c`.
const MOST_OPERATORS: usize = 1000;

/// Functions that return a value whose size is a number in the query. The table functions `range` and `generate_series` are others: they
/// return rows, one batch at a time.
const SIZED_BY_A_NUMBER: [&str; 7] =
    ["array_repeat", "array_resize", "generate_series", "lpad", "range", "repeat", "rpad"];

/// Returns the part of an environment that knows no files and no stores.
pub(crate) fn without_stores() -> RuntimeEnvBuilder {
    RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(NoStores))
}

/// Returns the URL of scans.
pub(crate) fn recordings() -> Result<ObjectStoreUrl> {
    ObjectStoreUrl::parse(RECORDINGS)
}

#[derive(Debug)]
struct NoStores;

impl ObjectStoreRegistry for NoStores {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if url.as_str().starts_with(RECORDINGS) {
            return Ok(Arc::new(InMemory::new()));
        }
        plan_err!("queries read only recordings, not {url}")
    }
}

/// Removes [`SIZED_BY_A_NUMBER`].
pub(crate) fn without_large_values(context: &SessionContext) {
    SIZED_BY_A_NUMBER.iter().for_each(|name| context.deregister_udf(name));
}

/// Fails for a statement with more than [`MOST_OPERATORS`].
pub(crate) fn is_short(sql: &str) -> Result<()> {
    // The parser reports what is not a token.
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap_or_default();
    let operators = tokens.iter().filter(|token| match token {
        Token::Word(word) => word.keyword != Keyword::NoKeyword,
        Token::Whitespace(_)
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Comma
        | Token::Period
        | Token::LParen
        | Token::RParen => false,
        _ => true,
    });
    if operators.count() > MOST_OPERATORS {
        return plan_err!(
            "the statement has more than {MOST_OPERATORS} operators and keywords; use `IN (...)` instead of a chain of `OR`"
        );
    }
    Ok(())
}
