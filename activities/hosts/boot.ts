/** The boot that a host is in: of its machine, and of an engine that took its containers down when it ended. */
export interface Boot {
  /** Its id, as it was settled last; another one as soon as the engine is found to have been started anew. */
  readonly id: string
  /**
   * Asks the engine now; resolves to the id. Rejects with HostUnreachable: an engine that is ending does not answer, so what was seen
   * before an answer with the same id was not its doing.
   */
  settle(): Promise<string>
}
