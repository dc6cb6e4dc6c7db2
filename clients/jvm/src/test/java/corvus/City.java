package corvus;

import java.util.ArrayList;
import java.util.List;

/** A document with values of every simple type. */
public class City {
    private String name;
    private long population;
    private double latitude;
    private String country;
    private List<String> twins = new ArrayList<>();

    public City() {
    }

    public City(String name, long population) {
        this.name = name;
        this.population = population;
    }

    public String getName() {
        return name;
    }

    public void setName(String name) {
        this.name = name;
    }

    public long getPopulation() {
        return population;
    }

    public void setPopulation(long population) {
        this.population = population;
    }

    public double getLatitude() {
        return latitude;
    }

    public void setLatitude(double latitude) {
        this.latitude = latitude;
    }

    public String getCountry() {
        return country;
    }

    public void setCountry(String country) {
        this.country = country;
    }

    public List<String> getTwins() {
        return twins;
    }

    public void setTwins(List<String> twins) {
        this.twins = twins;
    }
}
