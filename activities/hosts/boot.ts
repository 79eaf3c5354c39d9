/** The current boot of a host: of its machine, and of an engine that took its containers down when it ended. */
export interface Boot {
  /** Its id, as last settled; changes as soon as a restart of the engine is noticed. */
  readonly id: string
  /**
   * Queries the engine now; resolves to the id. Rejects with HostUnreachable. An engine that is ending does not answer, so it did not
   * cause what was seen before an answer with the same id.
   */
  settle(): Promise<string>
}
