/** Type of the failure of a step whose operation is not its lane's any more. Nothing is to be undone then: another run goes on with it. */
export const claimLost = 'ClaimLost'
