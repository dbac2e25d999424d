package brave.baggage;

import brave.propagation.TraceContext;

public class BaggageField {
    public static native BaggageField getByName(TraceContext context, String name);
    public native String getValue(TraceContext context);
}
