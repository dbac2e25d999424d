package io.opentelemetry.api.baggage;

import io.opentelemetry.context.Context;

public interface Baggage {
    static Baggage fromContext(Context context) { throw new AssertionError(); }

    String getEntryValue(String key);
}
