//! The indexes of the sample data.

use serde_json::{Value, json};

/// The definitions, as clients would send them.
pub(crate) fn indexes() -> Vec<Value> {
    vec![
        json!({
            "Name": "Orders/ByCompany",
            "Maps": ["from order in docs.Orders select new { order.Company, Count = 1, \
                      Total = order.Lines.Sum(line => line.Quantity * line.PricePerUnit * (1 - line.Discount)) }"],
            "Reduce": "from result in results group result by result.Company into company \
                       select new { Company = company.Key, Count = company.Sum(x => x.Count), \
                       Total = company.Sum(x => x.Total) }"
        }),
        json!({
            "Name": "Orders/Totals",
            "Maps": ["from order in docs.Orders select new { order.Employee, order.Company, \
                      Total = order.Lines.Sum(line => line.Quantity * line.PricePerUnit * (1 - line.Discount)) }"]
        }),
        json!({
            "Name": "Orders/ByShipment/Location",
            "Maps": ["from order in docs.Orders where order.ShipTo.Location != null \
                      select new { order.Employee, order.Company, ShipmentLocation = \
                      CreateSpatialField(order.ShipTo.Location.Latitude, order.ShipTo.Location.Longitude) }"],
            "Fields": {"ShipmentLocation": {"Spatial": {
                "Type": "Geography", "Strategy": "GeohashPrefixTree", "MaxTreeLevel": 9,
                "MinX": -180.0, "MaxX": 180.0, "MinY": -90.0, "MaxY": 90.0, "Units": "Kilometers"
            }}}
        }),
        json!({
            "Name": "Product/Search",
            "Maps": ["from product in docs.Products select new { product.Name, product.Category, \
                      product.Supplier, product.PricePerUnit }"],
            "Fields": {"Name": {"Indexing": "Search", "Suggestions": true}}
        }),
        json!({
            "Name": "Product/Rating",
            "Maps": ["from counter in counters.Products \
                      let product = LoadDocument(counter.DocumentId, \"Products\") \
                      where counter.Name.StartsWith(\"⭐\") \
                      select new { product.Name, Rating = counter.Name.Length, TotalVotes = counter.Value }"],
            "Reduce": "from result in results group result by result.Name into product \
                       let votes = product.Sum(x => x.TotalVotes) \
                       select new { Name = product.Key, \
                       Rating = product.Sum(x => (decimal)x.Rating * x.TotalVotes) / votes, \
                       TotalVotes = votes }"
        }),
        json!({
            "Name": "Products/ByUnitOnStock",
            "Maps": ["from product in docs.Products select new { UnitOnStock = product.UnitsInStock }"]
        }),
        json!({
            "Name": "Companies/StockPrices/TradeVolumeByMonth",
            "Maps": ["from segment in timeSeries.Companies.StockPrices \
                      let company = LoadDocument(segment.DocumentId, \"Companies\") \
                      from entry in segment.Entries select new { \
                      Date = new DateTime(entry.Timestamp.Year, entry.Timestamp.Month, 1), \
                      Country = company.Address.Country, Volume = entry.Values[4] }"],
            "Reduce": "from result in results group result by new { result.Date, result.Country } into month \
                       select new { month.Key.Date, month.Key.Country, Volume = month.Sum(x => x.Volume) }"
        }),
    ]
}
