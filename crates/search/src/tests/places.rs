//! Generated places and shapes against a naive evaluator, which looks at every value of every entry.

use std::{cmp::Ordering, sync::Arc};

use proptest::prelude::*;
use spatial::{
    Bounds, Coordinate, GridKind, Relation, Shape, Space, Units, intersects, parse_shape, within,
};
use storage::Environment;

use super::{Bench, documents, entry};
use crate::{
    DistanceFrom, Field, FieldOptions, FieldSet, IndexBatch, IndexReader, Indexing, Query, Scoring,
    SortBy, SortKey, SpatialLayout, check,
};

const DOCUMENTS: u8 = 16;

/// Values of a document: shapes in `Place`, a text in `Name`; none of either for a deleted one.
type Document = Option<(Vec<Shape>, Option<u8>)>;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, Document),
    Apply,
}

fn layout() -> impl Strategy<Value = SpatialLayout> {
    let plane = Bounds { min_x: -180.0, max_x: 180.0, min_y: -90.0, max_y: 90.0 };
    (0..4).prop_map(move |kind| match kind {
        0 => SpatialLayout::default(),
        1 => SpatialLayout::new(Space::Geography, GridKind::Quad, 23, Units::Miles),
        2 => SpatialLayout::new(Space::Cartesian(plane), GridKind::Quad, 6, Units::Kilometers),
        _ => SpatialLayout::new(Space::Geography, GridKind::Unnamed, 0, Units::Kilometers),
    })
}

/// Few different ones, many of them on edges of cells and of the surface.
fn place() -> impl Strategy<Value = Coordinate> {
    let x = prop_oneof![(-12i32..=12).prop_map(|x| f64::from(x) * 15.0), -180.0..180.0f64];
    let y = prop_oneof![(-6i32..=6).prop_map(|y| f64::from(y) * 15.0), -90.0..90.0f64];
    let far = (x, y).prop_map(|(x, y)| Coordinate { x, y });
    let near = (0i32..4, 0i32..4).prop_map(|(x, y)| Coordinate {
        x: 20.0 + f64::from(x) * 0.01,
        y: 10.0 + f64::from(y) * 0.01,
    });
    prop_oneof![2 => far, 3 => near]
}

fn shape() -> impl Strategy<Value = Shape> {
    let size = prop_oneof![Just(0.02), Just(5.0), Just(30.0)];
    (place(), size, 0..7).prop_map(|(at, size, kind)| {
        let Coordinate { x, y } = at;
        let (right, top) = ((x + size).min(180.0), (y + size).min(90.0));
        let text = match kind {
            0 | 1 => format!("POINT({x} {y})"),
            2 => format!("ENVELOPE({x}, {right}, {top}, {y})"),
            3 => format!("LINESTRING({x} {y}, {right} {top})"),
            4 => format!("MULTIPOINT({x} {y}, {right} {top})"),
            5 => format!("BUFFER(POINT({x} {y}), {size})"),
            _ => "LINESTRING(170 0, -170 5)".to_owned(),
        };
        parse_shape(&text, &Space::Geography, Units::Kilometers).expect("parses")
    })
}

fn document() -> impl Strategy<Value = Document> {
    let places = prop_oneof![
        3 => place().prop_map(|at| vec![Shape::point(at)]),
        2 => prop::collection::vec(shape(), 0..3),
    ];
    prop::option::weighted(0.8, (places, prop::option::of(0u8..4)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..DOCUMENTS, document()).prop_map(|(number, document)| Step::Put(number, document)),
        2 => Just(Step::Apply),
    ]
}

fn relation() -> impl Strategy<Value = Relation> {
    prop::sample::select(vec![
        Relation::Within,
        Relation::Contains,
        Relation::Intersects,
        Relation::Disjoint,
    ])
}

fn fields(environment: &Arc<Environment>, layout: SpatialLayout) -> (FieldSet, Field, Field) {
    let mut set = FieldSet::load(&environment.read()).expect("loads");
    let spatial = FieldOptions { spatial: Some(layout), ..FieldOptions::default() };
    let place = set.define("Place", spatial).expect("defines");
    let name = set.define("Name", FieldOptions::new(Indexing::Exact)).expect("defines");
    (set, place, name)
}

fn run(environment: &Arc<Environment>, steps: &[Step], layout: SpatialLayout, at_once: bool) {
    let mut batch = IndexBatch::new();
    let apply = |batch: &mut IndexBatch| {
        let mut tx = environment.write().expect("writes");
        batch.apply(&mut tx, &mut fields(environment, layout).0).expect("applies");
        tx.commit().expect("commits");
    };
    for step in steps {
        let (_, place, name) = fields(environment, layout);
        match step {
            Step::Put(number, None) => batch.delete(&format!("d/{number}")).expect("deletes"),
            Step::Put(number, Some((places, text))) => {
                let entry = entry(|entry| {
                    places.iter().for_each(|shape| entry.shape(&place, shape));
                    text.iter().for_each(|text| entry.term(&name, &text.to_string()));
                });
                batch.put(&format!("d/{number}"), &[entry]).expect("puts");
            }
            Step::Apply if at_once => {}
            Step::Apply => apply(&mut batch),
        }
    }
    apply(&mut batch);
}

/// Number and values of every document, in the order of entries.
type Model = Vec<(u8, Vec<Shape>, Option<u8>)>;

fn model(steps: &[Step]) -> Model {
    let mut entries: Model = Vec::new();
    for step in steps {
        if let Step::Put(number, document) = step {
            entries.retain(|(own, ..)| own != number);
            if let Some((places, text)) = document.clone() {
                entries.push((*number, places, text));
            }
        }
    }
    entries
}

fn is_related(space: &Space, places: &[Shape], relation: Relation, asked: &Shape) -> bool {
    match relation {
        Relation::Within => places.iter().any(|own| within(space, own, asked)),
        Relation::Contains => places.iter().any(|own| within(space, asked, own)),
        Relation::Intersects => places.iter().any(|own| intersects(space, own, asked)),
        Relation::Disjoint => {
            !places.is_empty() && !places.iter().any(|own| intersects(space, own, asked))
        }
    }
}

fn distance(from: &DistanceFrom, places: &[Shape]) -> Option<f64> {
    let centers = places.iter().filter_map(|own| own.center(&from.layout.space));
    let distances =
        centers.map(|center| from.layout.space.distance(from.at, center, from.layout.units));
    distances.reduce(f64::min)
}

fn compare(from: &DistanceFrom, descending: bool, left: &[Shape], right: &[Shape]) -> Ordering {
    let rounded = |places| distance(from, places).map(|distance| from.rounded(distance));
    match (rounded(left), rounded(right)) {
        (Some(left), Some(right)) if descending => right.total_cmp(&left),
        (Some(left), Some(right)) => left.total_cmp(&right),
        (left, right) => right.is_some().cmp(&left.is_some()),
    }
}

fn names(expected: &[&(u8, Vec<Shape>, Option<u8>)]) -> Vec<String> {
    expected.iter().map(|(number, ..)| format!("d/{number}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn shapes_find_what_looking_at_every_entry_finds(
        layout in layout(),
        steps in prop::collection::vec(step(), 0..60),
        questions in prop::collection::vec((relation(), shape(), relation(), shape()), 12),
    ) {
        let (in_batches, at_once) = (Bench::new(1).open(), Bench::new(1).open());
        run(&in_batches, &steps, layout, false);
        run(&at_once, &steps, layout, true);
        let entries = model(&steps);
        for environment in [&in_batches, &at_once] {
            let report = check(&environment.read()).expect("sound");
            prop_assert_eq!(report.entries, entries.len() as u64);
            for (relation, shape, other, second) in &questions {
                let query = |relation: &Relation, shape: &Shape| Query::Spatial {
                    field: "Place".to_owned(),
                    layout,
                    relation: *relation,
                    shape: Arc::new(shape.clone()),
                };
                let holds = |relation: &Relation, shape: &Shape, places: &Vec<Shape>| {
                    is_related(&layout.space, places, *relation, shape)
                };
                let expected: Vec<_> =
                    entries.iter().filter(|(_, places, _)| holds(relation, shape, places)).collect();
                let one = query(relation, shape);
                prop_assert_eq!(documents(environment, &one), names(&expected));
                let expected: Vec<_> = expected
                    .into_iter()
                    .filter(|(_, places, _)| !holds(other, second, places))
                    .collect();
                let both = Query::And(vec![one, query(other, second).not()]);
                prop_assert_eq!(documents(environment, &both), names(&expected));
            }
        }
    }

    #[test]
    fn distances_order_as_looking_at_every_entry_does(
        layout in layout(),
        steps in prop::collection::vec(step(), 0..60),
        questions in prop::collection::vec(
            (place(), prop::sample::select(vec![0.0, 1.0, 700.0]), any::<[bool; 4]>(), (0u64..8, 0u64..9)),
            12,
        ),
    ) {
        let environment = Bench::new(1).open();
        run(&environment, &steps, layout, false);
        let entries = model(&steps);
        let tx = environment.read();
        let reader = IndexReader::open(&tx).expect("opens");
        for (at, round_to, [descending, by_name, first, some], (skip, take)) in questions {
            let from = DistanceFrom { at, layout, round_to };
            let by = SortBy::Distance("Place".to_owned(), from);
            let mut sort = vec![SortKey { by, descending }];
            let by_text = SortKey { by: SortBy::Text("Name".to_owned()), descending: false };
            if by_name {
                sort.insert(usize::from(!first), by_text);
            }
            let query = if some { Query::text("Name", "1") } else { Query::All };
            let mut expected: Vec<_> =
                entries.iter().filter(|(.., name)| !some || *name == Some(1)).collect();
            expected.sort_by(|left, right| {
                let distance = compare(&from, descending, &left.1, &right.1);
                match (by_name, first) {
                    (false, _) => distance,
                    (true, true) => left.2.cmp(&right.2).then(distance),
                    (true, false) => distance.then(left.2.cmp(&right.2)),
                }
            });
            let document = |hit: &crate::Hit| {
                reader.document_id(hit.entry).expect("reads").expect("is there").to_owned()
            };
            let streamed = reader.stream_sorted(&query, &sort, Scoring::Off).expect("streams");
            let streamed: Vec<_> = streamed.map(|hit| document(&hit.expect("reads"))).collect();
            prop_assert_eq!(streamed, names(&expected));
            let hits = reader.search(&query, &sort, skip, take, Scoring::Off).expect("searches");
            prop_assert_eq!(hits.total, expected.len() as u64);
            let page: Vec<_> =
                expected.into_iter().skip(skip as usize).take(take as usize).collect();
            prop_assert_eq!(hits.rows.iter().map(document).collect::<Vec<_>>(), names(&page));
            for (hit, (_, places, _)) in hits.rows.iter().zip(page) {
                let field = reader.field("Place").expect("reads");
                let location = field.and_then(|field| {
                    reader.location(hit.entry, field, &from).expect("reads")
                });
                prop_assert_eq!(location.map(|location| location.distance), distance(&from, places));
            }
        }
    }
}
