package corvus;

import java.util.List;

/** A mountain hut, with the properties that the query tests use. */
public class Hut {
    public String name;
    public String region;
    public long altitude;
    public long beds;
    public Double price;
    public List<String> tags;
    public String club;
    public Double latitude;
    public Double longitude;
    public String about = "";

    /** The properties of a hut by which queries filter and order. */
    static Hut of(String name, String region, long altitude, long beds, Double price, String club, String... tags) {
        Hut hut = new Hut();
        hut.name = name;
        hut.region = region;
        hut.altitude = altitude;
        hut.beds = beds;
        hut.price = price;
        hut.club = club;
        hut.tags = List.of(tags);
        return hut;
    }

    Hut at(double latitude, double longitude) {
        this.latitude = latitude;
        this.longitude = longitude;
        return this;
    }

    Hut about(String about) {
        this.about = about;
        return this;
    }
}
