/** Requested steps of a host, and how many ran concurrently for each application. */
export class StepLog {
  /** Names, for all applications. */
  readonly calls: string[] = []
  readonly #steps = new Map<string, string[]>()
  readonly #now = new Map<string, number>()
  readonly #most = new Map<string, number>()

  /** Records a step of a release while it runs. */
  async during<R>(
    { appId, number }: { appId: string; number: number },
    name: string,
    work: () => Promise<R>,
  ): Promise<R> {
    this.calls.push(name)
    this.#steps.set(appId, [...this.steps(appId), `${name} ${number}`])
    const count = (this.#now.get(appId) ?? 0) + 1
    this.#now.set(appId, count)
    this.#most.set(appId, Math.max(count, this.mostAtOnce(appId)))
    try {
      return await work()
    } finally {
      this.#now.set(appId, (this.#now.get(appId) ?? 1) - 1)
    }
  }

  /** Steps of one application in order, as `<activity> <release>`. */
  steps(appId: string): string[] {
    return this.#steps.get(appId) ?? []
  }

  isBusy(appId: string): boolean {
    return (this.#now.get(appId) ?? 0) > 0
  }

  mostAtOnce(appId: string): number {
    return this.#most.get(appId) ?? 0
  }
}
