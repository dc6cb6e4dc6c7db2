// The sizes that the writer of the durability suite and its check agree on.

export const WRITERS = 4;
export const BATCH_DOCUMENTS = 10;
