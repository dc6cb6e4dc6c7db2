//! What a plan loads besides its documents.

use crate::compile::names::Function;
use crate::compile::plan::{Argument, Constant, Node, Op, Piece, Pipeline, Stage};

/// The collections of `LoadDocument`, each once, in the order of the text.
pub(crate) fn collections(pipeline: &Pipeline) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    visit_pipeline(pipeline, &mut |node| {
        if let Op::Function(call) = &node.op
            && call.function == Function::LoadDocument
            && let Some(Argument::Value(Node { op: Op::Constant(Constant::Text(name)), .. })) =
                call.arguments.get(1)
            && !found.iter().any(|known| known.eq_ignore_ascii_case(name))
        {
            found.push(name);
        }
    });
    found
}

/// Whether `LoadCompareExchangeValue` is called.
pub(crate) fn loads_compare_exchange(pipeline: &Pipeline) -> bool {
    let mut found = false;
    visit_pipeline(pipeline, &mut |node| {
        if let Op::Function(call) = &node.op {
            found |= call.function == Function::LoadCompareExchangeValue;
        }
    });
    found
}

fn visit_pipeline<'p>(pipeline: &'p Pipeline, visit: &mut dyn FnMut(&'p Node)) {
    for stage in &pipeline.stages {
        match stage {
            Stage::Set { value: node, .. }
            | Stage::Filter { condition: node, .. }
            | Stage::Each { source: node, .. } => visit_node(node, visit),
            Stage::Group { element, key, .. } => {
                visit_node(element, visit);
                visit_node(key, visit);
            }
            Stage::Order { keys, .. } => keys.iter().for_each(|(key, _)| visit_node(key, visit)),
        }
    }
    visit_node(&pipeline.result, visit);
}

fn visit_arguments<'p>(arguments: &'p [Argument], visit: &mut dyn FnMut(&'p Node)) {
    for argument in arguments {
        match argument {
            Argument::Value(node) => visit_node(node, visit),
            Argument::Lambda(lambda) => visit_node(&lambda.body, visit),
            Argument::Option(_) => {}
        }
    }
}

fn visit_node<'p>(node: &'p Node, visit: &mut dyn FnMut(&'p Node)) {
    visit(node);
    match &node.op {
        Op::Constant(_) | Op::Slot(_) => {}
        Op::Property { target: child, .. }
        | Op::Unary { operand: child, .. }
        | Op::Cast { operand: child, .. }
        | Op::As { operand: child, .. }
        | Op::Is { operand: child, .. } => visit_node(child, visit),
        Op::Index { target: left, index: right }
        | Op::Conditionally { target: left, rest: right, .. } => {
            visit_node(left, visit);
            visit_node(right, visit);
        }
        Op::Method(call) => {
            visit_node(&call.target, visit);
            visit_arguments(&call.arguments, visit);
        }
        Op::Function(call) => visit_arguments(&call.arguments, visit),
        Op::Binary { operands: pair, .. } | Op::And(pair) | Op::Or(pair) | Op::Coalesce(pair) => {
            pair.iter().for_each(|operand| visit_node(operand, visit));
        }
        Op::Choice(operands) => operands.iter().for_each(|operand| visit_node(operand, visit)),
        Op::Interpolated(pieces) => pieces.iter().for_each(|piece| match piece {
            Piece::Hole { value, .. } => visit_node(value, visit),
            Piece::Text(_) => {}
        }),
        Op::Record { values: items, .. } | Op::List { items, .. } | Op::Tuple(items) => {
            items.iter().for_each(|item| visit_node(item, visit));
        }
        Op::Dictionary(pairs) => pairs.iter().for_each(|(key, value)| {
            visit_node(key, visit);
            visit_node(value, visit);
        }),
        Op::Sequence(pipeline) => visit_pipeline(pipeline, visit),
    }
}
