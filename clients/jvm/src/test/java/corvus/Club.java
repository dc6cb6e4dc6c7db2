package corvus;

/** The owner of some huts. */
public class Club {
    public String name;
    public long members;

    static Club of(String name, long members) {
        Club club = new Club();
        club.name = name;
        club.members = members;
        return club;
    }
}
