/** How the platform keeps its proxies up to date. */
export const edgeRules = {
  /** A proxy whose keeper was not seen for longer is cut off: nothing waits for it. More than one round of the route keeper. */
  liveSeconds: 25,
  /** How long a request waits until every live proxy has a change. */
  waitSeconds: 5,
  /** How long the workflow of a domain waits for that. */
  serveSeconds: 60,
} as const
