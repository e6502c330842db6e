//! Finds the operators that launched kernels.

use std::collections::HashMap;

use super::rows::Number;
use crate::error::TableFull;
use crate::ids::LaunchId;
use crate::operators::{LaneKind, Launch, OperatorLane, SpanAt};

/// The numbers by which the events of a trace refer to each other; 0 is none.
pub(super) enum Ids {
    /// Of an operator.
    Operator { external: u32 },
    /// Of a call of the GPU's runtime or driver.
    Call { correlation: u32 },
    /// Of a kernel, a copy or a fill: those of its call, and of its operator.
    Kernel { correlation: u32, external: u32 },
}

/// Approximate memory of the numbers of a span while the trace is read, in bytes. Vectors grow by doubling.
pub(super) const IDS: usize = 2 * size_of::<Ids>() + size_of::<(u32, SpanAt, Option<SpanAt>)>();

/// Returns a number of a trace; 0 if it has none.
pub(super) fn number(of: &Number) -> u32 {
    of.0.and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

/// Replaces the positions in `ids`, which the spans have, by those of their launches, and returns these. The lanes have their final order.
pub(super) fn link(lanes: &mut [OperatorLane], ids: &[Ids]) -> Result<Vec<Launch>, TableFull> {
    let ids_of = |launch: Option<LaunchId>| launch.and_then(|id| ids.get(id.index()));
    let mut operators: Vec<(u32, SpanAt)> = Vec::new();
    // A call, and the innermost operator around it.
    let mut calls: Vec<(u32, SpanAt, Option<SpanAt>)> = Vec::new();
    for (at, lane) in (0..).zip(&*lanes).filter(|(_, lane)| lane.kind == LaneKind::Operators) {
        let mut open: Vec<SpanAt> = Vec::new();
        let end_of = |span: &SpanAt| lane.spans[span.span as usize].end_ns;
        for (span, here) in (0..).zip(&lane.spans).map(|(span, here)| (SpanAt { lane: at, span }, here)) {
            // A call may end after its operator: their times are of two clocks.
            while open.last().is_some_and(|last| end_of(last) <= here.start_ns) {
                open.pop();
            }
            match ids_of(here.launch) {
                Some(&Ids::Call { correlation }) if correlation > 0 => {
                    calls.push((correlation, span, open.last().copied()));
                }
                Some(&Ids::Operator { external }) if external > 0 => operators.push((external, span)),
                _ => {}
            }
            if !here.is_call {
                open.push(span);
            }
        }
    }
    // Of several with one number, the first counts.
    operators.sort_by_key(|&(external, _)| external);
    calls.sort_by_key(|&(correlation, ..)| correlation);
    let operator_of = |external: u32| {
        let at = operators.partition_point(|&(other, _)| other < external);
        operators.get(at).filter(|&&(other, _)| other == external && external > 0).map(|&(_, span)| span)
    };
    let call_of = |correlation: u32| {
        let at = calls.partition_point(|&(other, ..)| other < correlation);
        calls.get(at).filter(|&&(other, ..)| other == correlation && correlation > 0)
    };
    let mut launches = Vec::new();
    let mut known: HashMap<(Option<SpanAt>, Option<SpanAt>), LaunchId> = HashMap::new();
    for lane in &mut *lanes {
        for span in &mut lane.spans {
            span.launch = match ids_of(span.launch) {
                Some(&Ids::Kernel { correlation, external }) => {
                    let call = call_of(correlation);
                    let operator = operator_of(external).or(call.and_then(|&(.., operator)| operator));
                    let call = call.map(|&(_, call, _)| call);
                    match known.get(&(call, operator)) {
                        Some(&id) => Some(id),
                        None if call.is_none() && operator.is_none() => None,
                        None => {
                            let id = LaunchId::new(launches.len())?;
                            known.insert((call, operator), id);
                            launches.push(Launch { call, operator });
                            Some(id)
                        }
                    }
                }
                _ => None,
            };
        }
    }
    Ok(launches)
}

#[cfg(test)]
mod tests;
