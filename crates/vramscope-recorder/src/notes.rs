//! Categories, phases and modules of allocations, from the notes of the Python package.
//!
//! The rules are those of the package for pickles (`vramscope-python/src/purposes`), and the numbers of roles and phases are its numbers.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use vramscope_trace::{Category, Phase, Purpose, TensorNote};

/// The roles of memory in the order of their numbers. An allocation with several roles gets the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Parameter,
    Buffer,
    OptimizerState,
    Gradient,
    Input,
    SavedLeaf,
    Saved,
}

const ROLES: [Role; 7] = [
    Role::Parameter,
    Role::Buffer,
    Role::OptimizerState,
    Role::Gradient,
    Role::Input,
    Role::SavedLeaf,
    Role::Saved,
];

/// The phases in the order of their numbers; the first is none.
const PHASES: [Option<Phase>; 4] =
    [None, Some(Phase::Forward), Some(Phase::Backward), Some(Phase::Optimizer)];

/// The module of a thread (0 for none), and its phase.
type Place = (u32, Option<Phase>);

/// A live allocation.
#[derive(Debug, Clone)]
struct Noted {
    device: i64,
    size: u64,
    /// Index of its event in the present log.
    event: u64,
    made_in: Place,
    role: Option<(Role, u32)>,
    /// The lines of its `TensorNote`; empty if the program did not describe it.
    tensor: String,
    /// What the log has.
    text: String,
}

/// A change of the text of an allocation in the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) device: i64,
    /// Index of the allocation among the device's events.
    pub(crate) event: u64,
    pub(crate) text: String,
}

/// The notes of a process.
#[derive(Debug, Default, Clone)]
pub(crate) struct Notes {
    modules: HashMap<u64, String>,
    /// The places of threads that are in a phase.
    busy: HashMap<u64, Place>,
    /// Live allocations since the first note, by address.
    live: BTreeMap<u64, Noted>,
    has_begun: bool,
}

impl Notes {
    /// A module has this path.
    pub(crate) fn module(&mut self, module: u64, path: String) {
        self.has_begun = true;
        self.modules.insert(module, path);
    }

    /// A thread is in this module and phase.
    pub(crate) fn place(&mut self, thread: u64, module: u64, phase: u64) {
        self.has_begun = true;
        match usize::try_from(phase).ok().and_then(|phase| PHASES.get(phase).copied().flatten()) {
            Some(phase) => {
                self.busy.insert(thread, (u32::try_from(module).unwrap_or(0), Some(phase)));
            }
            None => drop(self.busy.remove(&thread)),
        }
    }

    /// Memory was allocated by the device's event of this index. Returns its text.
    pub(crate) fn allocated(
        &mut self,
        device: i64,
        address: u64,
        size: u64,
        event: u64,
        thread: u64,
    ) -> Option<&str> {
        // Without notes, threads have no number.
        if !self.has_begun || thread == 0 {
            return None;
        }
        let made_in = self.busy.get(&thread).copied().unwrap_or_default();
        let text = self.text(made_in, None, "");
        let tensor = String::new();
        self.live.insert(address, Noted { device, size, event, made_in, role: None, tensor, text });
        self.live.get(&address).map(|noted| noted.text.as_str())
    }

    /// Memory was freed.
    pub(crate) fn freed(&mut self, address: u64) -> Option<Change> {
        let noted = self.live.remove(&address)?;
        // An allocation that a backward pass frees was kept for it, by autograd or by a checkpoint.
        let is_in_backward = !self.busy.is_empty()
            && self.busy.values().all(|&(_, phase)| phase == Some(Phase::Backward))
            && noted.role.is_none()
            && noted.made_in.1 == Some(Phase::Forward);
        if !is_in_backward {
            return None;
        }
        let text = self.text(noted.made_in, Some((Role::Saved, 0)), &noted.tensor);
        Some(Change { device: noted.device, event: noted.event, text })
    }

    /// The memory at an address has a role.
    pub(crate) fn role(&mut self, address: u64, role: u64, owner: u64) -> Option<Change> {
        let role = *ROLES.get(usize::try_from(role).ok()?)?;
        let (&start, noted) = self.live.range(..=address).next_back()?;
        let (made_in, before) = (noted.made_in, noted.role);
        // An argument that a module produced is an intermediate result, not an input.
        let is_result = role == Role::Input && made_in.0 != 0;
        if address - start >= noted.size.max(1)
            || is_result
            || before.is_some_and(|(before, _)| before <= role)
        {
            return None;
        }
        let role = Some((role, u32::try_from(owner).unwrap_or(0)));
        let text = self.text(made_in, role, &noted.tensor);
        let noted = self.live.get_mut(&start)?;
        noted.role = role;
        if noted.text == text {
            return None;
        }
        noted.text.clone_from(&text);
        Some(Change { device: noted.device, event: noted.event, text })
    }

    /// The program described the tensor at an address. A later description replaces an earlier one.
    pub(crate) fn tensor(&mut self, address: u64, description: String) -> Option<Change> {
        let (&start, noted) = self.live.range(..=address).next_back()?;
        if address - start >= noted.size.max(1) || TensorNote::parse(&description).is_none() {
            return None;
        }
        let text = self.text(noted.made_in, noted.role, &description);
        let noted = self.live.get_mut(&start)?;
        noted.tensor = description;
        noted.text.clone_from(&text);
        Some(Change { device: noted.device, event: noted.event, text })
    }

    /// The text of a live allocation, whose event has this index in the next log.
    pub(crate) fn moved(&mut self, address: u64, event: u64) -> Option<&str> {
        let noted = self.live.get_mut(&address)?;
        noted.event = event;
        Some(&noted.text)
    }

    fn text(&self, made_in: Place, role: Option<(Role, u32)>, tensor: &str) -> String {
        let category = match role.map(|(role, _)| role) {
            Some(Role::Parameter) => Category::Parameter,
            Some(Role::Buffer) => Category::Buffer,
            Some(Role::OptimizerState) => Category::OptimizerState,
            Some(Role::Gradient) => Category::Gradient,
            Some(Role::Input) => Category::Input,
            Some(Role::SavedLeaf) if made_in.0 == 0 => Category::Input,
            Some(Role::SavedLeaf | Role::Saved) => Category::Activation,
            None => Category::Temporary,
        };
        let owner = role.map_or(0, |(_, owner)| owner);
        let module = if owner == 0 { made_in.0 } else { owner };
        let module = self.modules.get(&u64::from(module)).filter(|_| module != 0);
        let module = module.map(String::as_str);
        let mut text = Purpose { category: Some(category), phase: made_in.1, module }.to_string();
        if !tensor.is_empty() {
            text.push('\n');
            text += tensor;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORWARD: u64 = 1;
    const BACKWARD: u64 = 2;

    fn notes() -> Notes {
        let mut notes = Notes::default();
        notes.module(1, String::new());
        notes.module(2, "h.0.attn".to_owned());
        notes
    }

    fn change(event: u64, text: &str) -> Option<Change> {
        Some(Change { device: 0, event, text: text.to_owned() })
    }

    #[test]
    fn an_allocation_gets_its_place_and_then_its_role() {
        let mut notes = notes();
        assert_eq!(notes.allocated(0, 0x1000, 512, 0, 7), Some("vramscope:category=temporary"));
        assert_eq!(notes.role(0x1010, 0, 2), change(0, "vramscope:category=parameter;module=h.0.attn"));
        // A weaker role, the same one, and memory behind the block.
        assert_eq!(
            [notes.role(0x1000, 6, 0), notes.role(0x1000, 0, 2), notes.role(0x1200, 0, 2)],
            [None, None, None]
        );
        notes.place(7, 2, FORWARD);
        let text = "vramscope:category=temporary;module=h.0.attn;phase=forward";
        assert_eq!(notes.allocated(0, 0x2000, 512, 1, 7), Some(text));
        assert_eq!(notes.allocated(0, 0x3000, 512, 2, 8), Some("vramscope:category=temporary"));
        // A result of a module is no input, memory from outside is.
        assert_eq!(notes.role(0x2000, 4, 0), None);
        assert_eq!(notes.role(0x3000, 4, 0), change(2, "vramscope:category=input"));
        assert_eq!(notes.role(0x2000, 99, 0), None);
    }

    #[test]
    fn forward_memory_freed_in_the_backward_pass_is_an_activation() {
        let mut notes = notes();
        notes.place(7, 2, FORWARD);
        notes.allocated(0, 0x1000, 512, 0, 7);
        notes.allocated(0, 0x2000, 512, 1, 7);
        assert_eq!(notes.freed(0x1000), None);
        notes.place(7, 0, 0);
        notes.place(9, 2, BACKWARD);
        let text = "vramscope:category=activation;module=h.0.attn;phase=forward";
        assert_eq!(notes.freed(0x2000), change(1, text));
        assert_eq!(notes.freed(0x2000), None);
    }

    #[test]
    fn a_next_log_has_other_indices() {
        let mut notes = notes();
        notes.allocated(0, 0x1000, 512, 90, 7);
        assert_eq!(notes.moved(0x1000, 3), Some("vramscope:category=temporary"));
        assert_eq!(notes.role(0x1000, 1, 1), change(3, "vramscope:category=buffer;module="));
        assert_eq!(Notes::default().allocated(0, 0x1000, 512, 0, 7), None);
    }

    #[test]
    fn a_description_stays_beside_later_roles() {
        let mut notes = notes();
        notes.allocated(0, 0x1000, 512, 0, 7);
        let described = "vramscope-tensor:dtype=int8;shape=(512,)\nvramscope-referrer:m.x";
        let text = |category: &str| format!("vramscope:category={category}\n{described}");
        assert_eq!(notes.tensor(0x1080, described.to_owned()), change(0, &text("temporary")));
        assert_eq!(notes.tensor(0x1200, described.to_owned()), None);
        assert_eq!(notes.tensor(0x1000, "other".to_owned()), None);
        assert_eq!(notes.role(0x1000, 3, 0), change(0, &text("gradient")));
        assert_eq!(notes.moved(0x1000, 4), Some(text("gradient").as_str()));
    }
}
