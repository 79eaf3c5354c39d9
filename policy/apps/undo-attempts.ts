/** An undo that fails is told to people from this attempt on: the first ones may meet a host that has just come back. */
export const tellUndoFrom = 3
