/** A failing undo is shown to people from this attempt on: the first ones may meet a host that has just started. */
export const showUndoFrom = 3
