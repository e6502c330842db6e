//! What a query may not do: open files and stores, build values of any size, be too long for the planner.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result, plan_err};
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{Cast, Expr, GroupingSet, LogicalPlan, TryCast};
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

/// Functions whose value or memory has a size that the query states. The table functions `range` and `generate_series` are others: they
/// return rows, one batch at a time.
const OF_ANY_SIZE: [&str; 9] = [
    "array_repeat",
    "array_resize",
    "arrow_cast",
    "arrow_try_cast",
    "generate_series",
    "lpad",
    "range",
    "repeat",
    "rpad",
];

/// Aggregates as [`OF_ANY_SIZE`].
const AGGREGATES_OF_ANY_SIZE: [&str; 2] = ["approx_percentile_cont", "approx_percentile_cont_with_weight"];

/// Limit on the columns of a `CUBE`, which groups by each of their subsets.
const MOST_IN_CUBE: usize = 8;

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

/// Removes [`OF_ANY_SIZE`] and [`AGGREGATES_OF_ANY_SIZE`].
pub(crate) fn without_large_values(context: &SessionContext) {
    OF_ANY_SIZE.iter().for_each(|name| context.deregister_udf(name));
    AGGREGATES_OF_ANY_SIZE.iter().for_each(|name| context.deregister_udaf(name));
}

/// Fails for a plan with a type of any fixed size, such as `INT[1000000000]`, or with a large `CUBE`.
pub(crate) fn has_no_large_values(plan: &LogicalPlan) -> Result<()> {
    let check = |part: &Expr| match part {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. })
            if field.data_type().to_string().contains("FixedSize") =>
        {
            plan_err!("types of a fixed size are not supported: {}", field.data_type())
        }
        Expr::GroupingSet(GroupingSet::Cube(columns)) if columns.len() > MOST_IN_CUBE => {
            plan_err!("a CUBE has at most {MOST_IN_CUBE} columns")
        }
        _ => Ok(TreeNodeRecursion::Continue),
    };
    plan.apply_with_subqueries(|part| part.apply_expressions(|expression| expression.apply(check)))
        .map(|_| ())
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
