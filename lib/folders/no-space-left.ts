/** A disk or a quota is full. */
export class NoSpaceLeft extends Error {
  override name = 'NoSpaceLeft'
}
