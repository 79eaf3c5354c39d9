/** Type of the failure of a step whose operation is not its lane's any more. Nothing is to be undone then: another run goes on with it. */
export const claimLost = 'ClaimLost'

/** Type of the failure of a snapshot that no longer has its host's place. Its lane gives the files back and waits for the place anew. */
export const placeLost = 'PlaceLost'
