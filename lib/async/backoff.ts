export interface BackoffOptions {
  firstSeconds: number
  maxSeconds: number
  now?: (() => number) | undefined
}

/** When a loop may check each of many targets again: after a delay that doubles with every check. */
export class Backoff {
  private readonly targets = new Map<string, { until: number; seconds: number }>()
  private readonly options: BackoffOptions & { now: () => number }

  constructor(options: BackoffOptions) {
    this.options = { ...options, now: options.now ?? (() => performance.now()) }
  }

  /** The targets whose delay has not passed. */
  waiting(): string[] {
    const now = this.options.now()
    return [...this.targets].filter(([, { until }]) => until > now).map(([target]) => target)
  }

  /** Whether the delay of this target has not passed. */
  waits(target: string): boolean {
    return (this.targets.get(target)?.until ?? 0) > this.options.now()
  }

  /** The target is fine: its next delay is the first one again. */
  forget(target: string): void {
    this.targets.delete(target)
  }

  /** The target was checked now. */
  seen(target: string): void {
    const { firstSeconds, maxSeconds, now } = this.options
    const previous = this.targets.get(target)?.seconds
    const seconds = previous === undefined ? firstSeconds : Math.min(maxSeconds, previous * 2)
    this.targets.set(target, { until: now() + seconds * 1000, seconds })
  }

  /** Forgets targets whose delay has passed and that are not among the current ones. */
  forgetOthers(currentTargets: readonly string[]): void {
    const now = this.options.now()
    const current = new Set(currentTargets)
    for (const [target, { until }] of this.targets)
      if (until <= now && !current.has(target)) this.targets.delete(target)
  }
}
