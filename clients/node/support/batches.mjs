// The sizes shared by the writer of the durability suite and its check.

export const WRITERS = 4;
export const BATCH_DOCUMENTS = 10;
