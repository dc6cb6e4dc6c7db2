using System;
using System.Collections.Generic;

class Employee
{
    public string Id { get; set; }
    public string FirstName { get; set; }
    public string LastName { get; set; }
    public int Age { get; set; }
    public decimal Salary { get; set; }
    public DateTime HiredAt { get; set; }
    public TimeSpan Shift { get; set; }
    public string Manager { get; set; }
    public List<string> Skills { get; set; } = new();
    public Address Home { get; set; }
    public Rank Rank { get; set; }
    public double? Rating { get; set; }
}

class Address
{
    public string City { get; set; }
    public string Country { get; set; }
}

enum Rank { Junior, Senior, Lead }

class Company
{
    public string Id { get; set; }
    public string Name { get; set; }
    public string ExternalId { get; set; }
}

class Order
{
    public string Id { get; set; }
    public string Company { get; set; }
    public DateTime OrderedAt { get; set; }
    public List<Line> Lines { get; set; } = new();
}

class Line
{
    public string Product { get; set; }
    public int Quantity { get; set; }
    public decimal Price { get; set; }
}

static class People
{
    public static readonly DateTime Day = new(2020, 3, 5, 6, 7, 8, DateTimeKind.Utc);

    public static Employee[] All() => new[]
    {
        new Employee { Id = "employees/1", FirstName = "Ada", LastName = "Lovelace", Age = 36, Salary = 1234.50m,
            HiredAt = Day, Shift = TimeSpan.FromHours(8), Skills = { "math", "poetry" }, Rank = Rank.Lead, Rating = 4.5,
            Home = new Address { City = "London", Country = "UK" } },
        new Employee { Id = "employees/2", FirstName = "Grace", LastName = "Hopper", Age = 85, Salary = 2000m,
            HiredAt = Day.AddYears(-1), Shift = TimeSpan.FromHours(6), Manager = "employees/1", Skills = { "compilers" },
            Rank = Rank.Senior, Home = new Address { City = "New York", Country = "US" } },
        new Employee { Id = "employees/3", FirstName = "Alan", LastName = "Turing", Age = 41, Salary = 0.1m,
            HiredAt = Day.AddDays(1), Shift = new TimeSpan(1, 2, 3, 4), Manager = "employees/1", Skills = { "math" },
            Rating = 5, Home = new Address { City = "London", Country = "UK" } },
    };

    public static void Store(Raven.Client.Documents.IDocumentStore store)
    {
        using var session = store.OpenSession();
        foreach (var employee in All()) session.Store(employee);
        session.SaveChanges();
    }
}
