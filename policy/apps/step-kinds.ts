/** Kinds of operations that bring a release of their own. */
const bringing = ['create', 'deploy', 'restore'] as const
/** Of them, those that replace a release which serves. */
const replacing = ['deploy', 'restore'] as const

/** What a container host does for one operation, and for operations of which kinds. */
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
