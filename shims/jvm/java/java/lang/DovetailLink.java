package java.lang;

/** Tells whether native methods are found: in some JDKs not before the function that loads the agent has returned. */
final class DovetailLink {
    private DovetailLink() {}

    static native boolean isThere0();
}
