/** Kinds of operations with their own release. */
const bringing = ['create', 'deploy', 'restore'] as const
/** Those that replace a serving release. */
const replacing = ['deploy', 'restore'] as const

/** Steps on a container host, and the kinds of operations that use them. */
export const stepKinds = {
  prepareRelease: bringing,
  installDependencies: bringing,
  placeFiles: bringing,
  restoreFiles: replacing,
  settleFiles: replacing,
  lendDependencies: replacing,
  discardRelease: replacing,
  startRelease: bringing,
  passHealthGate: bringing,
  startApp: ['start', 'restart', ...replacing],
  stopApp: ['stop', 'restart', ...bringing],
  removeContainer: replacing,
  removeContainers: ['create', 'delete'],
  removeFiles: ['create', 'delete'],
  awaitSnapshotPlace: ['snapshot'],
  takeSnapshot: ['snapshot'],
} as const satisfies Record<string, readonly string[]>

export type StepName = keyof typeof stepKinds
