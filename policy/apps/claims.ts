/** Type of the failure of a step whose operation another run has taken over. Nothing is undone then: that run continues it. */
export const claimLost = 'ClaimLost'

/** Type of the failure of a snapshot that has lost its snapshot slot. Its lane releases the files and waits for the slot again. */
export const placeLost = 'PlaceLost'
