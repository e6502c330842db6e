//! Typed 32-bit ids. An id can only be made by the table that owns the entry, so it always refers to one.

use std::num::NonZeroU32;

use crate::error::TableFull;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Ids of one trace mean nothing in another. `Option` of it is four bytes, as it is itself.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The id of entry number `index`; fails where 32 bits cannot count that far.
            pub(crate) fn new(index: usize) -> Result<Self, TableFull> {
                let plus_one = u32::try_from(index).ok().and_then(|i| i.checked_add(1));
                plus_one.and_then(NonZeroU32::new).map(Self).ok_or(TableFull(stringify!($name)))
            }

            /// The entry's position in its table, from 0, in the order of first appearance.
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
    /// What an event carries beside its numbers, in a [`TagsTable`](crate::TagsTable).
    TagsId
);
