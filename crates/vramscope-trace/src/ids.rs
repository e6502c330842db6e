//! Typed 32-bit ids. Only the table that owns an entry creates its id, so an id always refers to an entry.

use std::num::NonZeroU32;

use crate::error::TableFull;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// An id is only valid in its own trace. The type and an `Option` of it both have 4 bytes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// Creates the id of entry `index`. Fails if 32 bits are too few.
            pub(crate) fn new(index: usize) -> Result<Self, TableFull> {
                let plus_one = u32::try_from(index).ok().and_then(|i| i.checked_add(1));
                plus_one.and_then(NonZeroU32::new).map(Self).ok_or(TableFull(stringify!($name)))
            }

            /// Returns the index of the entry in its table, from 0, in order of first appearance.
            #[inline]
            pub fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    };
}

id!(
    /// A string in a [`StringTable`](crate::StringTable).
    StringId
);
id!(
    /// A launch of kernels in [`OperatorTrace::launches`](crate::OperatorTrace::launches).
    LaunchId
);
id!(
    /// A list of strings in a [`StringListTable`](crate::StringListTable).
    StringListId
);
id!(
    /// A frame in a [`FrameTable`](crate::FrameTable).
    FrameId
);
id!(
    /// A stack in a [`StackTable`](crate::StackTable).
    StackId
);
id!(
    /// Additional data of an event, in a [`TagsTable`](crate::TagsTable).
    TagsId
);
