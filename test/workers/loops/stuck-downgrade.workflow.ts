/** A step to a lower plan whose workflow task fails, as after an installation of code that does not fit its history. */
export async function downgrade(): Promise<void> {
  throw new Error('this code does not fit the history')
}
