// HiPPO-LegS (Gu, Dao, Ermon, Re 2020, arXiv 2008.07669): the eigenvalues of its normal part, and
// its input in their basis. S4 (2111.00396), S4D (2206.11893) and S5 (2208.04933) start from them.
#pragma once

// For the matrix of size `count`: the imaginary parts of the eigenvalues. Those >= 0 come first and
// rising, then the conjugates of the positive ones in the same order. With them |v^* B| for each
// unit eigenvector v. The real parts are -1/2, and v^* P is v^* B / sqrt 2.
void legs_spectrum(int count, double *imaginary, double *input);
