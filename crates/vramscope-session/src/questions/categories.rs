//! The categories of a device's allocations, one byte for each, and the steps that follow from them.

use std::collections::HashMap;

use serde::Serialize;
use vramscope_analysis::{AllocationCategories, Basis, CATEGORY_RULES, History, Reason, Steps};
use vramscope_report::because;
use vramscope_trace::Category;

use crate::questions::tables::category;

/// The category of an allocation, and the evidence for it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct Purpose {
    /// A position in `CATEGORIES`.
    pub(crate) category: u8,
    /// A clause about "it".
    pub(crate) because: String,
}

/// The categories of allocations, the evidence for them, and the steps of the program.
#[derive(Debug)]
pub(crate) struct CategoriesOfDevice {
    /// Each combination of category and evidence that occurs.
    pub(crate) table: Vec<Purpose>,
    /// The position in `table` for each allocation of the history.
    pub(crate) allocations: Vec<u8>,
    pub(crate) steps: Steps,
}

// A recorded category has one reason; each rule adds two, because it applies directly or through similar allocations.
const _: () = assert!(Category::ALL.len() + 1 + 2 * CATEGORY_RULES.len() <= 1 + u8::MAX as usize);

impl CategoriesOfDevice {
    pub(crate) fn of(history: &History) -> Self {
        let purposes = AllocationCategories::of(history);
        let mut table = Vec::new();
        let mut numbers: HashMap<(Category, usize, Option<Basis>), u8> = HashMap::new();
        let mut last = None;
        let allocations = history.allocations.iter().map(|a| {
            let (of, reason) = (purposes.category(a), purposes.reason(a));
            let key = match reason {
                Reason::Said => (of, 0, None),
                Reason::Preexisting => (of, 1, None),
                Reason::Inferred { rule, basis } => (of, std::ptr::from_ref(rule).addr(), Some(basis)),
            };
            if let Some((_, number)) = last.filter(|(before, _)| *before == key) {
                return number;
            }
            let number = *numbers.entry(key).or_insert_with(|| {
                table.push(Purpose { category: category(of), because: because(reason) });
                (table.len() - 1) as u8
            });
            last = Some((key, number));
            number
        });
        let allocations = allocations.collect();
        Self { table, allocations, steps: Steps::of(history, &purposes) }
    }

    /// The category of an allocation.
    pub(crate) fn category(&self, id: u32) -> Category {
        Category::ALL[usize::from(self.table[usize::from(self.allocations[id as usize])].category)]
    }
}
