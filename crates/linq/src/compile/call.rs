//! Calls: of methods of values, of static methods, and of the functions that every index has.

use fancy_regex::RegexBuilder;

use crate::compile::construct::constant_text;
use crate::compile::expression::{as_lambda, type_word};
use crate::compile::names::{Function, Method, NetType, SUGGESTED, StaticOption};
use crate::compile::plan::{
    Argument, CastType, Constant, FunctionCall, Known, MethodCall, Node, Op, Style,
};
use crate::compile::{Compiled, Compiler, Role};
use crate::definition_error::DefinitionErrorKind;
use crate::limits::REGEX_BACKTRACK_MAX;
use crate::syntax::ast::{Expr, ExprKind, Initializer, Member, TypeName};
use crate::syntax::span::Span;
use crate::value::{CreatedFieldOptions, FieldIndexing, FieldTermVector};

/// The receiver of `LoadDocument` when the index need not track the document.
const NO_TRACKING: &str = "NoTracking";

impl Compiler<'_> {
    pub(super) fn call(&mut self, target: &Expr, arguments: &[Expr], span: Span) -> Compiled<Node> {
        match &target.kind {
            ExprKind::Name { name, type_arguments } => {
                self.index_function(name, type_arguments, arguments, span)
            }
            ExprKind::Member { target: receiver, name, type_arguments } => {
                if receiver.as_name() == Some("this") {
                    return self.index_function(name, type_arguments, arguments, span);
                }
                if self.is_no_tracking(receiver) {
                    return self.untracked(name, type_arguments, arguments, span);
                }
                if let Some(class) = self.class_of(receiver) {
                    return self.static_call(&class, name, type_arguments, arguments, span);
                }
                self.method_call(receiver, name, type_arguments, arguments, span)
            }
            _ => Err(self.not_supported("calling a value", span)),
        }
    }

    fn types(&self, names: &[TypeName]) -> Compiled<Box<[CastType]>> {
        names.iter().map(|name| self.cast_type(name)).collect()
    }

    /// `Id(d)`, `LoadDocument(…)` and their kind.
    fn index_function(
        &mut self,
        name: &str,
        type_arguments: &[TypeName],
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<Node> {
        if name == "nameof" {
            return self.name_of(arguments, span);
        }
        let Some(function) = Function::of_index(name) else {
            let lower = name.to_lowercase();
            let near = SUGGESTED.iter().find(|known| known.to_lowercase() == lower);
            let message = match near {
                Some(near) => format!("'{name}' is no function here; did you mean '{near}'?"),
                None => format!("'{name}' is no function here"),
            };
            return Err(self.error(DefinitionErrorKind::UnknownMethod, message, span));
        };
        self.known_index_function((function, name), type_arguments, arguments, span)
    }

    fn known_index_function(
        &mut self,
        (function, name): (Function, &str),
        type_arguments: &[TypeName],
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<Node> {
        if self.role == Role::Reduce && reads_through_host(function) {
            return Err(self.not_supported(format!("'{name}' in a reduce"), span));
        }
        let (allowed, needs_type) = function_shape(function);
        let has_shape = allowed.contains(&arguments.len());
        if !has_shape || (needs_type && type_arguments.len() != 1) {
            let message = format!("'{name}' cannot be called with these arguments");
            return Err(self.error(DefinitionErrorKind::UnknownMethod, message, span));
        }
        let types = self.function_types(function, type_arguments)?;
        let options = match (function, arguments) {
            (Function::CreateField, [_, _, options @ ..]) => self.field_options(options)?,
            _ => CreatedFieldOptions::default(),
        };
        let passed = if function == Function::CreateField { &arguments[..2] } else { arguments };
        let arguments = self.arguments(passed)?;
        let call = FunctionCall { function, arguments, types, options, regex: None };
        Ok(Node { op: Op::Function(Box::new(call)), span, known: Known::Dynamic })
    }

    /// Whether it is `NoTracking`, whose functions do not make the index track what they load.
    fn is_no_tracking(&self, receiver: &Expr) -> bool {
        match &receiver.kind {
            ExprKind::Name { name, .. } => name == NO_TRACKING && self.scope.find(name).is_none(),
            ExprKind::Member { target, name, .. } => {
                name == NO_TRACKING && target.as_name() == Some("this")
            }
            _ => false,
        }
    }

    fn untracked(
        &mut self,
        name: &str,
        type_arguments: &[TypeName],
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<Node> {
        let Some(function) = Function::of_class(NO_TRACKING, name) else {
            return Err(self.unknown_static(NO_TRACKING, name, span));
        };
        self.known_index_function((function, name), type_arguments, arguments, span)
    }

    /// The type arguments of a function, which only `TryConvert` is particular about.
    fn function_types(
        &self,
        function: Function,
        type_arguments: &[TypeName],
    ) -> Compiled<Box<[CastType]>> {
        let types = self.types(type_arguments)?;
        if function != Function::TryConvert {
            return Ok(types);
        }
        match types.first().map(|cast| cast.to) {
            Some(NetType::Integer { .. } | NetType::Double | NetType::Float | NetType::Decimal) => {
                Ok(types)
            }
            _ => {
                let span = type_arguments.first().map_or(Span::default(), |name| name.span);
                Err(self.not_supported("'TryConvert' to anything but numbers", span))
            }
        }
    }

    fn name_of(&self, arguments: &[Expr], span: Span) -> Compiled<Node> {
        let name = match arguments.first().map(|argument| &argument.kind) {
            Some(ExprKind::Name { name, .. } | ExprKind::Member { name, .. }) => name,
            _ => return Err(self.not_supported("'nameof' of anything but a name", span)),
        };
        Ok(self.constant(Constant::Text(name.as_str().into()), span))
    }

    fn static_call(
        &mut self,
        class: &str,
        name: &str,
        type_arguments: &[TypeName],
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<Node> {
        self.refuse_chance(class, name, span)?;
        if let Some(function) = Function::of_class(class, name) {
            return self.function(function, arguments, span);
        }
        let is_enumerable = matches!(class, "Enumerable" | "DynamicEnumerable");
        let method = Method::from_word(name).filter(|_| is_enumerable);
        let (Some(_), Some((first, rest))) = (method, arguments.split_first()) else {
            return Err(self.unknown_static(class, name, span));
        };
        if as_lambda(first).is_some() {
            return Err(self.unknown_static(class, name, span));
        }
        self.types(type_arguments)?;
        let target = self.node(first)?;
        let rest = self.arguments(rest)?;
        let style = match class {
            "DynamicEnumerable" => Style::DynamicEnumerable,
            _ => Style::Enumerable,
        };
        Ok(self.static_method(target, name, rest, style, span))
    }

    /// `Enumerable.name(target, …)`
    pub(super) fn static_method(
        &self,
        target: Node,
        name: &str,
        arguments: Box<[Argument]>,
        style: Style,
        span: Span,
    ) -> Node {
        let method = Method::from_word(name);
        let types = Box::new([]);
        let name = name.into();
        // The type of the elements is not known from a call.
        let known = Known::Dynamic;
        let call = MethodCall { target, method, name, arguments, types, style };
        Node { op: Op::Method(Box::new(call)), span, known }
    }

    fn function(&mut self, function: Function, arguments: &[Expr], span: Span) -> Compiled<Node> {
        let compiled = self.arguments(arguments)?;
        let regex = self.constant_regex(function, &compiled, span)?;
        let is_dynamic = compiled.iter().any(|argument| {
            matches!(argument, Argument::Value(Node { known: Known::Dynamic, .. }))
        });
        let known = if is_dynamic { Known::Dynamic } else { function_known(function, &compiled) };
        let call = FunctionCall {
            function,
            arguments: compiled,
            types: Box::new([]),
            options: CreatedFieldOptions::default(),
            regex,
        };
        Ok(Node { op: Op::Function(Box::new(call)), span, known })
    }

    /// Compiles the pattern once, when it is written in the definition.
    fn constant_regex(
        &self,
        function: Function,
        arguments: &[Argument],
        span: Span,
    ) -> Compiled<Option<Box<fancy_regex::Regex>>> {
        let uses_pattern = matches!(
            function,
            Function::RegexIsMatch
                | Function::RegexReplace
                | Function::RegexMatch
                | Function::RegexMatches
                | Function::RegexSplit
        );
        let Some(Argument::Value(node)) = arguments.get(1).filter(|_| uses_pattern) else {
            return Ok(None);
        };
        let Some(pattern) = constant_text(node) else { return Ok(None) };
        match build_regex(pattern, options_of(arguments)) {
            Ok(regex) => Ok(Some(Box::new(regex))),
            Err(error) => {
                let message = format!("the regular expression is not supported: {error}");
                Err(self.error(DefinitionErrorKind::NotSupported, message, span))
            }
        }
    }

    fn method_call(
        &mut self,
        receiver: &Expr,
        name: &str,
        type_arguments: &[TypeName],
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<Node> {
        if matches!(name, "GetValueOrDefault") {
            return self.value_or_default(receiver, arguments, span);
        }
        if name == "GetType" {
            return Err(self.not_supported("a type as a value", span));
        }
        self.refuse_count(receiver, name, span)?;
        if let ExprKind::New { what, arguments: pattern, .. } = &receiver.kind
            && what.short() == "Regex"
        {
            return self.regex_call(name, pattern, arguments, span);
        }
        let types = self.types(type_arguments)?;
        let target = self.node(receiver)?;
        let method = Method::from_word(name);
        if matches!(method, Some(Method::ThenBy | Method::ThenByDescending)) {
            self.check_follows_order(&target, name, span)?;
        }
        let arguments = self.arguments(arguments)?;
        self.check_static_target(&target, method, name, &arguments, span)?;
        let known = method_known(target.known, method);
        let (name, style) = (name.into(), Style::Instance);
        let call = MethodCall { target, method, name, arguments, types, style };
        Ok(Node { op: Op::Method(Box::new(call)), span, known })
    }

    /// `new Regex(pattern, options).name(text, …)` is `Regex.name(text, pattern, …, options)`.
    fn regex_call(
        &mut self,
        name: &str,
        pattern: &[Expr],
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<Node> {
        let function = Function::of_class("Regex", name);
        let (Some(function), Some((pattern, options)), Some((text, rest))) =
            (function, pattern.split_first(), arguments.split_first())
        else {
            return Err(self.unknown_static("Regex", name, span));
        };
        let mut all = vec![text.clone(), pattern.clone()];
        all.extend_from_slice(rest);
        all.extend_from_slice(options);
        self.function(function, &all, span)
    }

    /// `GetValueOrDefault()` of a nullable.
    fn value_or_default(
        &mut self,
        receiver: &Expr,
        arguments: &[Expr],
        span: Span,
    ) -> Compiled<Node> {
        let target = self.node(receiver)?;
        let default = match arguments {
            [] => self.constant(Constant::Integer(0), span),
            [default] => self.node(default)?,
            _ => return Err(self.not_supported("'GetValueOrDefault' of several values", span)),
        };
        let known = default.known;
        Ok(Node { op: Op::Coalesce(Box::new([target, default])), span, known })
    }

    /// Refuses methods that the static type does not have.
    fn check_static_target(
        &self,
        target: &Node,
        method: Option<Method>,
        name: &str,
        arguments: &[Argument],
        span: Span,
    ) -> Compiled<()> {
        let has_lambda = arguments.iter().any(|argument| matches!(argument, Argument::Lambda(_)));
        let is_scalar = !matches!(target.known, Known::Dynamic | Known::Other | Known::Nullable);
        let is_unknown = method.is_none() && has_lambda;
        if is_unknown || is_scalar && (method.is_none() || has_lambda) {
            let word = type_word(target.known);
            let message = format!("a {word} has no method '{name}' in an index");
            return Err(self.error(DefinitionErrorKind::UnknownMethod, message, span));
        }
        Ok(())
    }

    /// A group's members are aggregated in steps, so counting them counts steps.
    pub(super) fn refuse_count(&self, receiver: &Expr, name: &str, span: Span) -> Compiled<()> {
        let is_variable = receiver.as_name().is_some_and(|name| self.scope.find(name).is_some());
        if self.role == Role::Reduce && is_variable && matches!(name, "Count" | "LongCount") {
            let message = "a reduce cannot use Count() on its group, because it is applied to its own \
                           results: add up a field that each map sets to 1";
            return Err(self.error(DefinitionErrorKind::Aggregation, message, span));
        }
        Ok(())
    }

    fn check_follows_order(&self, target: &Node, name: &str, span: Span) -> Compiled<()> {
        let follows = match &target.op {
            Op::Method(call) => matches!(
                call.method,
                Some(
                    Method::OrderBy
                        | Method::OrderByDescending
                        | Method::ThenBy
                        | Method::ThenByDescending
                )
            ),
            _ => false,
        };
        if follows {
            return Ok(());
        }
        let message = format!("'{name}' can only follow 'OrderBy'");
        Err(self.error(DefinitionErrorKind::UnknownMethod, message, span))
    }

    /// `true, true`, or `new CreateFieldOptions { … }`.
    fn field_options(&mut self, arguments: &[Expr]) -> Compiled<CreatedFieldOptions> {
        let mut options = CreatedFieldOptions::default();
        match arguments {
            [] => {}
            [Expr { kind: ExprKind::New { what, initializer, .. }, .. }]
                if what.short() == "CreateFieldOptions" =>
            {
                if let Some(Initializer::Properties(members)) = initializer {
                    members
                        .iter()
                        .try_for_each(|member| self.field_option(member, &mut options))?;
                }
            }
            [stored] => options.stored = Some(self.constant_bool(stored)?),
            [stored, analyzed, ..] => {
                options.stored = Some(self.constant_bool(stored)?);
                let analyzed = self.constant_bool(analyzed)?;
                options.indexing =
                    Some(if analyzed { FieldIndexing::Search } else { FieldIndexing::Exact });
            }
        }
        Ok(options)
    }

    fn constant_bool(&self, expr: &Expr) -> Compiled<bool> {
        match expr.kind {
            ExprKind::Bool(value) => Ok(value),
            _ => Err(self.not_supported("an option of a field that is not a constant", expr.span)),
        }
    }

    fn field_option(&self, member: &Member, options: &mut CreatedFieldOptions) -> Compiled<()> {
        let refuse = || {
            let what = format!("this value of the option '{}'", member.name);
            self.not_supported(what, member.value.span)
        };
        let ExprKind::Member { name: word, .. } = &member.value.kind else {
            return if member.value.kind == ExprKind::Null { Ok(()) } else { Err(refuse()) };
        };
        match member.name.as_str() {
            "Storage" => {
                let stored = matches!(word.as_str(), "Yes" | "No").then(|| word == "Yes");
                options.stored = Some(stored.ok_or_else(refuse)?);
            }
            "Indexing" => options.indexing = Some(field_indexing(word).ok_or_else(refuse)?),
            "TermVector" => options.term_vector = Some(term_vector(word).ok_or_else(refuse)?),
            _ => return Err(refuse()),
        }
        Ok(())
    }
}

fn field_indexing(word: &str) -> Option<FieldIndexing> {
    Some(match word {
        "No" => FieldIndexing::No,
        "Search" => FieldIndexing::Search,
        "Exact" => FieldIndexing::Exact,
        "Highlighting" => FieldIndexing::Highlighting,
        "Default" => FieldIndexing::Default,
        _ => return None,
    })
}

fn term_vector(word: &str) -> Option<FieldTermVector> {
    Some(match word {
        "No" => FieldTermVector::No,
        "Yes" => FieldTermVector::Yes,
        "WithPositions" => FieldTermVector::WithPositions,
        "WithOffsets" => FieldTermVector::WithOffsets,
        "WithPositionsAndOffsets" => FieldTermVector::WithPositionsAndOffsets,
        _ => return None,
    })
}

/// How many arguments a function takes, and whether it needs a type argument.
fn function_shape(function: Function) -> (std::ops::RangeInclusive<usize>, bool) {
    match function {
        Function::LoadDocument
        | Function::NoTrackingLoadDocument
        | Function::LoadAttachment
        | Function::Recurse => (2..=2, false),
        Function::CreateField => (2..=4, false),
        Function::CreateSpatialField => (1..=2, false),
        Function::TryConvert => (1..=1, true),
        _ => (1..=1, false),
    }
}

/// Whether a function reads what a reduce cannot see.
fn reads_through_host(function: Function) -> bool {
    matches!(
        function,
        Function::LoadDocument
            | Function::NoTrackingLoadDocument
            | Function::LoadAttachment
            | Function::LoadAttachments
            | Function::LoadCompareExchangeValue
            | Function::CounterNamesFor
            | Function::TimeSeriesNamesFor
            | Function::AttachmentsFor
    )
}

fn function_known(function: Function, arguments: &[Argument]) -> Known {
    let first = match arguments.first() {
        Some(Argument::Value(node)) => node.known,
        _ => Known::Other,
    };
    match function {
        Function::MathAbs | Function::MathMax | Function::MathMin => first,
        Function::MathRound | Function::MathFloor | Function::MathCeiling => first,
        Function::MathPow | Function::MathSqrt | Function::MathLog | Function::ConvertToDouble => {
            Known::Double
        }
        Function::ConvertToInt32 | Function::ConvertToInt64 | Function::IntegerParse => {
            Known::Integer
        }
        Function::DoubleParse => Known::Double,
        Function::DecimalParse | Function::ConvertToDecimal => Known::Decimal,
        Function::StringConcat
        | Function::StringFormat
        | Function::StringJoin
        | Function::ConvertToString
        | Function::RegexReplace => Known::Text,
        _ => Known::Other,
    }
}

fn method_known(target: Known, method: Option<Method>) -> Known {
    match (target, method) {
        (Known::Dynamic, _) => Known::Dynamic,
        (Known::Text, Some(Method::Split | Method::ToCharArray)) => Known::Other,
        (_, Some(Method::ToString)) | (Known::Text, _) => Known::Dynamic,
        (Known::Nullable | Known::Other, _) => Known::Dynamic,
        (known, _) => known,
    }
}

/// The options of a regular expression among arguments.
pub(crate) fn options_of(arguments: &[Argument]) -> Option<StaticOption> {
    arguments.iter().find_map(|argument| match argument {
        Argument::Option(option) => Some(*option),
        Argument::Value(_) | Argument::Lambda(_) => None,
    })
}

/// A regular expression whose matching is bounded.
pub(crate) fn build_regex(
    pattern: &str,
    option: Option<StaticOption>,
) -> Result<fancy_regex::Regex, Box<fancy_regex::Error>> {
    let prefix = match option {
        Some(option) if option.ignores_case() => "(?i)",
        Some(StaticOption::Multiline) => "(?m)",
        Some(StaticOption::Singleline) => "(?s)",
        Some(StaticOption::IgnorePatternWhitespace) => "(?x)",
        Some(_) | None => "",
    };
    let pattern = format!("{prefix}{pattern}");
    RegexBuilder::new(&pattern).backtrack_limit(REGEX_BACKTRACK_MAX).build().map_err(Box::new)
}
