package brave.propagation;

public class TraceContext {
    public native long traceIdHigh();
    public native long traceId();
    public native long spanId();
    public native long parentIdAsLong();
    public native boolean isLocalRoot();
    public native Boolean sampled();
}
